#include "runtime/transport/keys.h"

#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.h"
#include "base/unique_fd.h"

namespace tfdist::runtime {
namespace {

constexpr size_t kHexDigits = 2 * kKeyBytes;
static_assert(kKeyBytes == crypto_scalarmult_BYTES);

constexpr char kHowToMakeOne[] =
    "TFDIST_SECRET_FILE names a 0600 file with 64 hexadecimal digits, the same for every task; "
    "(umask 077; od -An -N32 -tx1 /dev/urandom | tr -d ' \\n' > FILE) makes one";

Error BadSecretFile(const std::filesystem::path& path, const std::string& why,
                    const std::string& remedy = kHowToMakeOne) {
  return Error(Phase::kConfig, "secret file " + path.string() + ": " + why, remedy);
}

UniqueFd OpenSecretFile(const std::filesystem::path& path) {
  UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // a FIFO must not block
  if (!file.valid()) throw BadSecretFile(path, WithErrno("cannot open", errno));
  return file;
}

void CheckMode(const std::filesystem::path& path, int fd) {
  struct stat info {};
  if (fstat(fd, &info) != 0) throw BadSecretFile(path, WithErrno("stat", errno));
  if (!S_ISREG(info.st_mode)) throw BadSecretFile(path, "not a regular file");
  if ((info.st_mode & 077) != 0) {
    throw BadSecretFile(path, "others than its owner may open it",
                        "chmod 600 it; if others may have read it, make another secret");
  }
}

}  // namespace

SecretBytes::~SecretBytes() { sodium_memzero(bytes_.data(), bytes_.size()); }

JobSecret JobSecret::FromFile(const std::filesystem::path& path) {
  const UniqueFd file = OpenSecretFile(path);
  CheckMode(path, file.get());
  char text[kHexDigits + 2];
  const ssize_t size = read(file.get(), text, sizeof text);
  if (size < 0) throw BadSecretFile(path, WithErrno("read", errno));
  std::string_view hex(text, static_cast<size_t>(size));
  if (hex.ends_with('\n')) hex.remove_suffix(1);
  try {
    JobSecret secret = FromHex(hex);
    sodium_memzero(text, sizeof text);
    return secret;
  } catch (const Error& error) {
    throw BadSecretFile(path, error.cause());
  }
}

JobSecret JobSecret::FromHex(std::string_view hex) {
  JobSecret secret;
  size_t size = 0;
  if (hex.size() != kHexDigits || sodium_hex2bin(secret.bytes_.data(), kKeyBytes, hex.data(),
                                                 hex.size(), nullptr, &size, nullptr) != 0) {
    throw Error(Phase::kConfig, "not 64 hexadecimal digits");
  }
  return secret;
}

KeyPair DeriveKeyPair(const JobSecret& secret, const TaskId& task) {
  // BLAKE2b keyed with the secret; the prefix keeps these keys apart from any other use of it.
  const std::string label = "tfdist-runtime curve 1 " + ToString(task);
  KeyPair pair;
  crypto_generichash(pair.secret_key.data(), kKeyBytes,
                     reinterpret_cast<const unsigned char*>(label.data()), label.size(),
                     secret.bytes().data(), kKeyBytes);
  crypto_scalarmult_base(pair.public_key.data(), pair.secret_key.data());
  return pair;
}

ServerKeys KeysOfServer(const JobSecret& secret, const TaskId& server,
                        const std::vector<TaskId>& trainers) {
  ServerKeys keys{DeriveKeyPair(secret, server), {}};
  for (const TaskId& trainer : trainers) {
    keys.allowed[DeriveKeyPair(secret, trainer).public_key] = ToString(trainer);
  }
  return keys;
}

ClientKeys KeysOfClient(const JobSecret& secret, const TaskId& trainer, const TaskId& server) {
  return {DeriveKeyPair(secret, trainer), DeriveKeyPair(secret, server).public_key};
}

}  // namespace tfdist::runtime
