#include "agent/files/file_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <system_error>
#include <vector>

#include "agent/files/file_receiver.h"
#include "agent/files/folder_time.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"

namespace tfdist::agent {
namespace {

constexpr size_t kCopyBytes = 256 * 1024;
constexpr std::chrono::hours kUnusedLimit{14 * 24};

template <typename Take>
void ReadWhole(const std::filesystem::path& path, Take take) {
  const UniqueFd fd = OpenFile(path, O_RDONLY);
  std::vector<char> buffer(kCopyBytes);
  while (true) {
    const ssize_t got = read(fd.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw Error(Phase::kFiles, WithErrno("cannot read " + path.string(), errno));
    if (got == 0) return;
    take(std::string_view(buffer.data(), static_cast<size_t>(got)));
  }
}

// nullopt: it is not there. Who unpacks data moves its files.
std::optional<std::string> ReadPart(const std::string& path, uint64_t offset, size_t count) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.valid() && errno == ENOENT) return std::nullopt;
  if (!fd.valid()) throw Error(Phase::kFiles, WithErrno("cannot open " + path, errno));
  std::string bytes(count, '\0');
  const ssize_t got = pread(fd.get(), bytes.data(), count, static_cast<off_t>(offset));
  if (got == static_cast<ssize_t>(count)) return bytes;
  throw Error(Phase::kFiles, got < 0 ? WithErrno("cannot read " + path, errno)
                                     : "a file is shorter than was announced: " + path);
}

// "<sha256>", or "<sha256>.a1B2c3" while it arrives (FileReceiver).
bool IsNameOfFile(std::string_view name) {
  constexpr size_t kDigits = 64;
  const std::string_view rest = name.substr(std::min(name.size(), kDigits));
  return IsSha256(name.substr(0, kDigits)) &&
         (rest.empty() || (rest.front() == '.' && rest.size() == 7));
}

}  // namespace

std::string HashFile(const std::filesystem::path& path) {
  Sha256 hash;
  ReadWhole(path, [&](std::string_view bytes) { hash.Update(bytes); });
  return hash.FinishHex();
}

void CopyContent(const std::filesystem::path& from, int to, const std::string& name) {
  {
    const UniqueFd fd = OpenFile(from, O_RDONLY);
    if (ioctl(to, FICLONE, fd.get()) == 0) return;  // ioctl_ficlone(2)
  }
  ReadWhole(from, [&](std::string_view bytes) { WriteAll(to, bytes, name); });
}

void CopyFile(const std::filesystem::path& from, const std::filesystem::path& to, mode_t mode) {
  std::filesystem::remove(to);
  const UniqueFd fd = OpenFile(to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode);
  CopyContent(from, fd.get(), to.string());
}

void LinkOrCopy(const std::filesystem::path& from, const std::filesystem::path& to, mode_t mode) {
  unlink(to.c_str());
  if (link(from.c_str(), to.c_str()) == 0) return;
  // Another file system, one without links, or too many links: whatever it is, a copy serves.
  CopyFile(from, to, mode);
}

FileStore::FileStore(std::filesystem::path folder) : folder_(std::move(folder)), places_(folder_) {}

FileStore::~FileStore() = default;

void FileStore::ForgetUnused() const {
  std::error_code error;
  if (!std::filesystem::exists(folder_, error)) return;
  const auto oldest = TimeAt(folder_) - kUnusedLimit;
  // Not a range's for: its ++ throws.
  for (std::filesystem::directory_iterator entry(folder_, error);
       !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    if (!IsNameOfFile(entry->path().filename().string())) continue;
    std::error_code gone;  // another job may do the same just now
    const auto time = entry->last_write_time(gone);
    if (!gone && time < oldest) std::filesystem::remove(entry->path(), gone);
  }
}

bool FileStore::Has(const protocol::FileDescription& file) const {
  const auto path = PathOf(file.sha256);
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return false;
  if (static_cast<uint64_t>(info.st_size) != file.size_bytes) return false;
  if (HashFile(path) != file.sha256) return false;
  if (!places_.IsElsewhere(file.sha256)) utimensat(AT_FDCWD, path.c_str(), nullptr, 0);
  // The same content may have come before as something that is not executed.
  return !file.executable || chmod(path.c_str(), 0500) == 0;
}

void FileStore::KeepUsed(const std::vector<std::string>& hashes) const {
  for (const std::string& sha256 : hashes) {
    if (IsSha256(sha256)) utimensat(AT_FDCWD, (folder_ / sha256).c_str(), nullptr, 0);
  }
}

void FileStore::Expect(const protocol::FileDescription& file) {
  expected_[file.sha256] = file;
  failed_.erase(file.sha256);
}

template <typename Take>
bool FileStore::Receive(const std::string& sha256, uint64_t offset, Take take) {
  if (failed_.contains(sha256)) return false;
  const auto expected = expected_.find(sha256);
  if (expected == expected_.end()) {
    throw Error(Phase::kFiles, "a file came that was not announced");
  }
  auto& receiver = receiving_[sha256];
  try {
    if (offset == 0 || receiver == nullptr) {
      const auto target = places_.Target(sha256);
      MakePrivateFolder(target.parent_path());
      receiver = std::make_unique<FileReceiver>(expected->second, target);
    }
    if (!take(*receiver)) return false;
    receiver->Finish();
    expected_.erase(expected);
  } catch (...) {
    // Later pieces of it are on their way already: one error is enough.
    failed_.insert(sha256);
    receiving_.erase(sha256);
    throw;
  }
  receiving_.erase(sha256);
  return true;
}

bool FileStore::Accept(const protocol::FilePiece& piece) {
  return Receive(piece.sha256, piece.offset, [&](FileReceiver& receiver) {
    receiver.Add(piece);
    return piece.last;
  });
}

bool FileStore::AcceptContent(const std::string& sha256, uint64_t offset,
                              std::string_view content) {
  return Receive(sha256, offset,
                 [&](FileReceiver& receiver) { return receiver.AddContent(offset, content); });
}

protocol::FilePart FileStore::Part(const protocol::FileAsk& ask) const {
  protocol::FilePart part{ask.sha256, ask.offset, protocol::PartState::kNone, {}};
  const auto file = announced_.find(ask.sha256);
  if (file == announced_.end() || ask.offset >= file->second.size_bytes ||
      failed_.contains(ask.sha256)) {
    return part;
  }
  const uint64_t count = std::min(protocol::kFilePartBytes, file->second.size_bytes - ask.offset);
  const auto receiving = receiving_.find(ask.sha256);
  const bool whole = receiving == receiving_.end();
  part.state = protocol::PartState::kLater;
  if (whole && expected_.contains(ask.sha256)) return part;
  if (!whole && receiving->second->written() < ask.offset + count) return part;
  const std::string path = whole ? PathOf(ask.sha256).string() : receiving->second->aside();
  auto data = ReadPart(path, ask.offset, count);
  if (!data) return part;
  part.data = std::move(*data);
  part.state = protocol::PartState::kData;
  return part;
}

void FileStore::Place(const protocol::FileDescription& file,
                      const std::filesystem::path& path) const {
  LinkOrCopy(PathOf(file.sha256), path, file.executable ? 0500 : 0400);
}

}  // namespace tfdist::agent
