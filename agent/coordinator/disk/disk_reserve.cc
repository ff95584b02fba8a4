#include "agent/coordinator/disk/disk_reserve.h"

#include <fcntl.h>
#include <unistd.h>

#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/unique_fd.h"

namespace tfdist::agent {

DiskReserve::DiskReserve(std::filesystem::path path, size_t size_bytes) : path_(std::move(path)) {
  std::error_code error;
  if (std::filesystem::file_size(path_, error) == size_bytes && !error) return;
  try {
    const UniqueFd fd = OpenFile(path_, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW);
    const int refused = posix_fallocate(fd.get(), 0, static_cast<off_t>(size_bytes));
    if (refused == 0) return;
    Log("no room is reserved for the end of the event log: {}",
        WithErrno("posix_fallocate", refused));
  } catch (const Error& e) {
    Log("no room is reserved for the end of the event log: {}", e.cause());
  }
  unlink(path_.c_str());
}

bool DiskReserve::Release() { return unlink(path_.c_str()) == 0; }

}  // namespace tfdist::agent
