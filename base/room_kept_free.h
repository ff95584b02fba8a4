// How much of this machine's disk a command leaves free that writes as much as a host sends.
#pragma once

#include <sys/statvfs.h>

#include <algorithm>
#include <cstdint>

namespace tfdist {

// 64 MiB, or 5 % of a disk on which that is less.
inline uint64_t BytesToKeepFree(const struct statvfs& disk) {
  constexpr uint64_t kMostBytes = 64 << 20;
  constexpr uint64_t kPartOfDisk = 20;
  return std::min(kMostBytes, uint64_t{disk.f_blocks} * disk.f_frsize / kPartOfDisk);
}

}  // namespace tfdist
