// The shared memory of one connection (common/shared_memory.h). Each ring is mapped twice, its
// mirror image right behind it, so that what crosses its end still lies in one piece.
#pragma once

#include <cstddef>
#include <span>

#include "base/unique_fd.h"
#include "runtime/shm/layout.h"

namespace tfdist::runtime::shm {

// The parts of a segment. Borrowed.
struct Memory {
  Control& control;
  std::span<std::byte> server_ring;  // filled by the server; the mirror image begins at its end
  std::span<std::byte> client_ring;
};

// Owns the mapping. Movable.
class Segment {
 public:
  // A new one. `fd` gets the descriptor to pass on. Throws Error(kRun).
  static Segment Create(size_t ring_bytes, UniqueFd& fd);
  // The one that the other side passed. Throws Error(kRun) when it is not a sealed memfd of this
  // account and of exactly that size.
  static Segment Open(const UniqueFd& fd, size_t ring_bytes);

  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&&) = delete;
  ~Segment();

  [[nodiscard]] Memory memory() const;

 private:
  Segment(const UniqueFd& fd, size_t ring_bytes);
  void MapPart(const UniqueFd& fd, size_t place, size_t from, size_t bytes);

  std::byte* begin_ = nullptr;  // Control, the server's ring twice, the client's ring twice
  size_t ring_bytes_ = 0;
};

}  // namespace tfdist::runtime::shm
