#include "agent/files/folder_time.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <string>
#include <system_error>

#include "base/error.h"
#include "base/unique_fd.h"

namespace tfdist::agent {

// By a new file, which has no name by then.
std::filesystem::file_time_type TimeAt(const std::filesystem::path& folder) {
  std::string name = (folder / ".now.XXXXXX").string();
  const UniqueFd fd(mkostemp(name.data(), O_CLOEXEC));
  if (!fd.valid()) throw Error(Phase::kFiles, WithErrno("cannot create " + name, errno));
  unlink(name.c_str());
  struct stat info {};
  if (fstat(fd.get(), &info) != 0) throw Error(Phase::kFiles, WithErrno("fstat", errno));
  return std::filesystem::file_time_type::clock::from_sys(
      std::chrono::sys_time<std::chrono::nanoseconds>(
          std::chrono::seconds(info.st_mtim.tv_sec) +
          std::chrono::nanoseconds(info.st_mtim.tv_nsec)));
}

std::vector<std::filesystem::path> EntriesIn(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  std::error_code error;
  // Not a range's for: its ++ throws.
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    paths.push_back(entry->path());
  }
  return paths;
}

}  // namespace tfdist::agent
