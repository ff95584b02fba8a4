#include "cli/ssh/keys/known_hosts_append.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <filesystem>

#include "base/clock.h"
#include "base/error.h"
#include "base/unique_fd.h"
#include "cli/ssh/keys/public_key.h"

namespace tfdist::ssh {
namespace {

constexpr size_t kSha1Bytes = 20;
constexpr std::chrono::seconds kLockLimit{5};

[[noreturn]] void Fail(const std::string& file, int error_number) {
  throw Error(Phase::kHostKey, WithErrno(fmt::format("cannot add to {}", file), error_number));
}

// "|1|salt|HMAC-SHA1 of the name", OpenSSH's hostfile.c host_hash: hides which hosts a user visits.
std::string HashedName(const std::string& name) {
  std::array<unsigned char, kSha1Bytes> salt{};
  if (RAND_bytes(salt.data(), salt.size()) != 1) throw Error(Phase::kHostKey, "no random bytes");
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  HMAC(EVP_sha1(), salt.data(), salt.size(), reinterpret_cast<const unsigned char*>(name.data()),
       name.size(), digest.data(), &size);
  const auto text = [](const unsigned char* bytes, size_t count) {
    return Base64({reinterpret_cast<const char*>(bytes), count});
  };
  return fmt::format("|1|{}|{}", text(salt.data(), salt.size()), text(digest.data(), size));
}

// Against other hosts' threads and other tfdists, for as long as `fd` is open: two that see the
// file end inside a line would each begin one. OpenSSH has no lock, and appends a line at a time.
void Lock(int fd, const std::string& file) {
  const auto give_up = SystemClock().Now() + kLockLimit;
  while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return;  // a file system without locks
    if (SystemClock().Now() > give_up) Fail(file, EWOULDBLOCK);
    poll(nullptr, 0, 10);
  }
}

// Whether somebody left the file without a newline at its end.
bool EndsInsideALine(int fd) {
  struct stat info {};
  char last = '\n';
  if (fstat(fd, &info) == 0 && info.st_size > 0) (void)!pread(fd, &last, 1, info.st_size - 1);
  return last != '\n';
}

}  // namespace

void AppendKnownHost(const std::vector<std::string>& files, const std::string& name,
                     std::string_view blob, bool hashed) {
  if (files.empty())
    throw Error(Phase::kHostKey, "ssh's configuration names no UserKnownHostsFile to add to");
  const std::string& file = files.front();
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) Fail(file, errno);
  const UniqueFd fd(open(file.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0600));
  if (!fd.valid()) Fail(file, errno);
  Lock(fd.get(), file);
  const std::string line =
      fmt::format("{}{} {} {}\n", EndsInsideALine(fd.get()) ? "\n" : "",
                  hashed ? HashedName(name) : name, KeyType(blob), Base64(blob));
  const ssize_t put = write(fd.get(), line.data(), line.size());
  if (put != static_cast<ssize_t>(line.size())) Fail(file, put < 0 ? errno : ENOSPC);
}

}  // namespace tfdist::ssh
