#include "cli/ssh/keys/public_key.h"

#include <openssl/evp.h>

#include <algorithm>
#include <bit>

#include "cli/ssh/keys/wire.h"

namespace tfdist::ssh {
namespace {

const unsigned char* Unsigned(std::string_view bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

}  // namespace

std::string KeyType(std::string_view blob) {
  return std::string(WireReader(blob).TakeString().value_or(""));
}

// RFC 4253 6.6: type, e, n.
int RsaBits(std::string_view blob) {
  WireReader reader(blob);
  if (reader.TakeString() != "ssh-rsa") return 0;
  (void)reader.TakeString();
  std::string_view modulus = reader.TakeString().value_or("");
  modulus.remove_prefix(std::min(modulus.find_first_not_of('\0'), modulus.size()));
  if (modulus.empty()) return 0;
  return static_cast<int>((modulus.size() - 1) * 8 +
                          std::bit_width(static_cast<unsigned char>(modulus.front())));
}

std::string Base64(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');  // EVP_EncodeBlock ends with a NUL
  const int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()), Unsigned(bytes),
                                   static_cast<int>(bytes.size()));
  text.resize(static_cast<size_t>(size));
  return text;
}

std::optional<std::string> FromBase64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::string bytes(text.size() / 4 * 3, '\0');
  const int size = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()), Unsigned(text),
                                   static_cast<int>(text.size()));
  if (size < 0) return std::nullopt;
  size_t padding = 0;  // EVP_DecodeBlock counts it as bytes
  while (padding < 2 && padding < text.size() && text[text.size() - 1 - padding] == '=') ++padding;
  bytes.resize(static_cast<size_t>(size) - padding);
  return bytes;
}

}  // namespace tfdist::ssh
