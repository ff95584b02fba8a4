#include "cli/ssh/keys/passing_key.h"

#include <openssl/evp.h>

#include <array>
#include <memory>

#include "base/error.h"
#include "cli/ssh/keys/wire.h"

namespace tfdist::ssh {
namespace {

using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using Digest = std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)>;

void Require(bool done) {
  if (!done) throw Error(Phase::kAuth, "libcrypto makes no ed25519 key");
}

template <size_t kSize>
std::string Typed(const std::array<unsigned char, kSize>& bytes) {
  std::string blob;
  AppendString(blob, "ssh-ed25519");
  AppendString(blob, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  return blob;
}

}  // namespace

SignedOnce SignWithPassingKey(std::string_view data) {
  const Key key(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"), EVP_PKEY_free);
  const Digest digest(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  std::array<unsigned char, 32> open{};
  std::array<unsigned char, 64> signature{};
  size_t open_size = open.size();
  size_t signature_size = signature.size();
  Require(key && digest);
  Require(EVP_PKEY_get_raw_public_key(key.get(), open.data(), &open_size) == 1);
  Require(EVP_DigestSignInit(digest.get(), nullptr, nullptr, nullptr, key.get()) == 1);
  Require(EVP_DigestSign(digest.get(), signature.data(), &signature_size,
                         reinterpret_cast<const unsigned char*>(data.data()), data.size()) == 1);
  return {Typed(open), Typed(signature)};
}

}  // namespace tfdist::ssh
