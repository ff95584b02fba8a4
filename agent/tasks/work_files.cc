#include "agent/tasks/work_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdint>
#include <ctime>
#include <utility>
#include <vector>

#include "agent/files/file_store.h"
#include "agent/tasks/workdir.h"
#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "base/unique_fd.h"

namespace tfdist::agent {
namespace {

constexpr std::string_view kPrefix = "work/";

bool IsSafe(std::string_view path) {
  if (path.empty() || path.size() >= PATH_MAX || path.ends_with('/')) return false;
  if (path.find('\0') != std::string_view::npos) return false;
  while (!path.empty()) {
    const std::string_view name = TakeUpTo('/', path);
    if (name.empty() || name == "." || name == "..") return false;
  }
  return true;
}

UniqueFd OpenBelow(int folder, std::string_view name, int flags, mode_t mode,
                   const std::string& path) {
  UniqueFd fd(openat(folder, std::string(name).c_str(), flags | O_CLOEXEC | O_NOFOLLOW, mode));
  if (fd.valid()) return fd;
  throw Error(Phase::kFiles,
              WithErrno(fmt::format("cannot place {} in the work folder", path), errno));
}

// A folder that the archive has made read-only takes a file while this lives.
class Writable {
 public:
  explicit Writable(int folder) : folder_(folder) {
    struct stat info {};
    if (fstat(folder, &info) != 0) return;
    mode_ = info.st_mode & 07777;
    if (!was_writable()) (void)fchmod(folder_, mode_ | kNeeded);
  }
  Writable(const Writable&) = delete;
  Writable& operator=(const Writable&) = delete;
  ~Writable() {
    if (!was_writable()) (void)fchmod(folder_, mode_);
  }

 private:
  static constexpr mode_t kNeeded = S_IWUSR | S_IXUSR;
  [[nodiscard]] bool was_writable() const { return (mode_ & kNeeded) == kNeeded; }

  int folder_;
  mode_t mode_ = kNeeded;
};

constexpr size_t kMostTimesBytes = 256 << 20;
constexpr mode_t kModeBits = 0777;

// Takes a number and the space after it.
template <typename Number>
Number TakeNumber(std::string_view& text) {
  Number number = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const auto size = static_cast<size_t>(stop - text.data());
  if (error != std::errc() || size == text.size() || *stop != ' ') {
    throw Error(Phase::kFiles, "the times of the work folder are damaged");
  }
  text.remove_prefix(size + 1);
  return number;
}

// tar(1) has given modes as far as this account's umask allows.
void SetMode(const std::filesystem::path& path, mode_t mode) {
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0) return;
  if (!S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode)) return;
  if ((info.st_mode & kModeBits) == mode) return;
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (fd.valid()) (void)fchmod(fd.get(), mode);
}

}  // namespace

void SetTimesAndModes(const std::filesystem::path& times, const std::filesystem::path& work,
                      const std::stop_token& stop) {
  const std::string list = ReadFileIfExists(times, kMostTimesBytes).value_or("");
  std::vector<std::pair<std::filesystem::path, mode_t>> modes;
  for (std::string_view rest = list; !rest.empty();) {
    ThrowIfStopped(stop);
    std::string_view entry = TakeUpTo('\0', rest);
    timespec time{};
    time.tv_sec = TakeNumber<time_t>(entry);
    time.tv_nsec = TakeNumber<int64_t>(entry);
    const mode_t mode = TakeNumber<mode_t>(entry) & kModeBits;
    if (entry != "." && !IsSafe(entry)) {
      throw Error(Phase::kFiles,
                  fmt::format("the times of the work folder have a path '{}'", entry));
    }
    const timespec both[2] = {{0, UTIME_OMIT}, time};
    // Tasks may write to their work folder, whatever it is here.
    modes.emplace_back(work / entry, entry == "." ? mode | S_IRWXU : mode);
    (void)utimensat(AT_FDCWD, (work / entry).c_str(), both, AT_SYMLINK_NOFOLLOW);
  }
  // A folder before what is in it, in the list: its mode may shut this account out.
  for (auto at = modes.rbegin(); at != modes.rend(); ++at) {
    ThrowIfStopped(stop);
    SetMode(at->first, at->second);
  }
}

std::optional<std::string> PathInWork(std::string_view link) {
  if (!link.starts_with(kPrefix)) return std::nullopt;
  link.remove_prefix(kPrefix.size());
  if (!IsSafe(link)) {
    throw Error(Phase::kFiles,
                fmt::format("a file of the work folder cannot be called '{}'", link));
  }
  return std::string(link);
}

void PlaceInWork(const FilePlaces& places, const protocol::FileDescription& file,
                 const std::filesystem::path& work, const std::string& path,
                 const std::filesystem::path& own) {
  constexpr int kFolder = O_RDONLY | O_DIRECTORY;
  UniqueFd folder = OpenFile(work, kFolder | O_NOFOLLOW);
  std::string_view rest = path;
  std::string_view name = TakeUpTo('/', rest);
  for (; !rest.empty(); name = TakeUpTo('/', rest)) {
    folder = OpenBelow(folder.get(), name, kFolder, 0, path);
  }
  const Writable writable(folder.get());
  const std::string entry(name);
  if (linkat(AT_FDCWD, own.c_str(), folder.get(), entry.c_str(), 0) == 0) return;
  const UniqueFd fd = OpenBelow(folder.get(), name, O_WRONLY | O_CREAT | O_EXCL, 0600, path);
  CopyContent(places.PathOf(file.sha256), fd.get(), path);
}

}  // namespace tfdist::agent
