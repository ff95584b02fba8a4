#include "cli/ssh/keys/identity_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "cli/ssh/keys/public_key.h"
#include "cli/ssh/keys/wire.h"

namespace tfdist::ssh {
namespace {

constexpr size_t kMaxKeyFileBytes = 64 * 1024;
// With the line breaks that ssh wants (sshkey.c private2_uudecode). libssh2 takes these lines wherever they stand.
constexpr std::string_view kOpensshBegin = "-----BEGIN OPENSSH PRIVATE KEY-----\n";
constexpr std::string_view kOpensshEnd = "\n-----END OPENSSH PRIVATE KEY-----\n";
constexpr std::string_view kOpensshMagic{"openssh-key-v1\0", 15};

// Wiped when it goes: it has held a private key.
class Secret {
 public:
  explicit Secret(std::string text) : text_(std::move(text)) {}
  Secret(const Secret&) = delete;
  Secret& operator=(const Secret&) = delete;
  ~Secret() { explicit_bzero(text_.data(), text_.size()); }
  [[nodiscard]] std::string& text() { return text_; }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

std::optional<std::string> Read(const std::string& path) {
  try {
    return ReadFileIfExists(path, kMaxKeyFileBytes);
  } catch (const Error&) {
    return std::nullopt;  // as if it were not there: ssh does the same
  }
}

// As OpenSSH's sshkey_perm_ok (authfile.c): of a file of somebody else the mode does not count.
bool IsUnprotected(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 && info.st_uid == getuid() && (info.st_mode & 077) != 0;
}

// The second word of "ssh-ed25519 AAAA... comment".
std::string BlobOfPublicKey(std::string_view text) {
  const size_t begin = text.find(' ');
  if (begin == std::string::npos) return {};
  const size_t end = text.find_first_of(" \r\n", begin + 1);
  return FromBase64(text.substr(begin + 1, end - begin - 1)).value_or("");
}

// PROTOCOL.key: magic, cipher, kdf, kdf options, number of keys, public key, ...
void ReadOpensshHeader(const Secret& file, IdentityFile& identity) {
  const std::string_view text = file.text();
  if (!text.starts_with(kOpensshBegin) || text.find(kOpensshEnd) == text.npos) {
    if (text.find("-----BEGIN OPENSSH") != text.npos)
      identity.odd = identity.path + " is not as ssh-keygen writes a key";
    return;
  }
  Secret base64({});
  for (const char c :
       text.substr(kOpensshBegin.size(), text.find(kOpensshEnd) - kOpensshBegin.size())) {
    if (c != '\n' && c != '\r') base64.text() += c;
  }
  const Secret bytes(FromBase64(base64.text()).value_or(""));
  if (!bytes.text().starts_with(kOpensshMagic)) return;
  WireReader reader(std::string_view(bytes.text()).substr(kOpensshMagic.size()));
  identity.encrypted = reader.TakeString().value_or("none") != "none";
  (void)reader.TakeString();
  (void)reader.TakeString();
  (void)reader.TakeUint32();
  identity.public_blob = reader.TakeString().value_or("");
}

}  // namespace

std::optional<IdentityFile> LookAtIdentityFile(const std::string& path) {
  auto text = Read(path);
  const auto beside = Read(path + ".pub");
  if (!text && !beside) return std::nullopt;
  const bool is_there = text.has_value();
  const Secret file(std::move(text).value_or(""));
  IdentityFile identity;
  identity.path = path;
  identity.is_private = file.text().find(" PRIVATE KEY-----") != std::string::npos;
  if (!identity.is_private) {
    identity.public_blob = BlobOfPublicKey(is_there ? file.text() : *beside);
    identity.odd =
        identity.public_blob.empty() ? path + " holds no key" : "IdentityFile names a public key";
    return identity;
  }
  identity.unprotected = IsUnprotected(path);
  ReadOpensshHeader(file, identity);
  // PEM files say "Proc-Type: 4,ENCRYPTED" or "BEGIN ENCRYPTED PRIVATE KEY".
  if (file.text().find("ENCRYPTED") != std::string::npos) identity.encrypted = true;
  const std::string blob_beside = BlobOfPublicKey(beside.value_or(""));
  if (identity.public_blob.empty()) identity.public_blob = blob_beside;
  // ssh refuses it, and libssh2 does not.
  if (beside && identity.public_blob != blob_beside)
    identity.odd = path + " has another key's .pub beside it";
  return identity;
}

}  // namespace tfdist::ssh
