#include "agent/files/disk_room.h"

#include <fmt/format.h>
#include <sys/statvfs.h>

#include <string>

#include "base/error.h"
#include "base/process_limits.h"

namespace tfdist::agent {

std::optional<uint64_t> FreeBytesAt(const std::filesystem::path& folder) {
  struct statvfs info {};
  if (statvfs(folder.c_str(), &info) != 0) return std::nullopt;
  return uint64_t{info.f_bavail} * info.f_frsize;
}

void CheckRoom(const std::filesystem::path& folder, uint64_t bytes) {
  const auto free_bytes = FreeBytesAt(folder);
  if (!free_bytes || *free_bytes >= bytes) return;  // what follows fails with its reason
  throw Error(Phase::kFiles,
              fmt::format("the job's files need {} MiB at {}, where {} MiB are free", bytes >> 20,
                          folder.string(), *free_bytes >> 20),
              std::string(kRoomForWorkRemedy));
}

void CheckRoomForNewFiles(const std::filesystem::path& folder, uint64_t files) {
  struct statvfs info {};
  const bool are_counted = statvfs(folder.c_str(), &info) == 0 && info.f_files != 0;
  if (!are_counted || info.f_favail >= files) return;
  throw Error(Phase::kFiles,
              fmt::format("the job needs room for {} files at {}, where room for {} is left", files,
                          folder.string(), info.f_favail),
              std::string(kRoomForWorkRemedy));
}

}  // namespace tfdist::agent
