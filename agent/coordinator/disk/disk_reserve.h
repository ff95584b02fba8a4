// Room on a disk for what must be written when it is full: a file that is removed then.
#pragma once

#include <cstddef>
#include <filesystem>

namespace tfdist::agent {

// Blocks: for the file thread. The file stays when this object goes: another agent may need it.
class DiskReserve {
 public:
  // Takes `size_bytes` at `path`, unless an earlier reserve is there. A disk that has no room for
  // it now is said in the log.
  DiskReserve(std::filesystem::path path, size_t size_bytes);

  // Gives the room back. False: there was none.
  bool Release();

 private:
  std::filesystem::path path_;
};

}  // namespace tfdist::agent
