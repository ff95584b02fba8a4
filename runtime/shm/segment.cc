#include "runtime/shm/segment.h"

#include <sys/mman.h>

#include <cerrno>
#include <new>
#include <string>
#include <utility>

#include "base/error.h"
#include "runtime/common/shared_memory.h"

namespace tfdist::runtime::shm {
namespace {

constexpr size_t MappedBytes(size_t ring_bytes) { return kControlBytes + 4 * ring_bytes; }

[[noreturn]] void ThrowErrno(const char* what) {
  throw Error(Phase::kRun, WithErrno(std::string("shared memory: ") + what, errno));
}

}  // namespace

Segment Segment::Create(size_t ring_bytes, UniqueFd& fd) {
  fd = CreateSealed(SegmentBytes(ring_bytes));
  Segment segment(fd, ring_bytes);
  new (segment.begin_) Control;
  return segment;
}

Segment Segment::Open(const UniqueFd& fd, size_t ring_bytes) {
  if (SizeOfSealed(fd) != SegmentBytes(ring_bytes)) {
    throw Error(Phase::kRun, "shared memory: what was passed is of another size");
  }
  return {fd, ring_bytes};
}

Segment::Segment(const UniqueFd& fd, size_t ring_bytes) : ring_bytes_(ring_bytes) {
  // The room for all parts first, so that they lie side by side.
  void* room =
      mmap(nullptr, MappedBytes(ring_bytes), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) ThrowErrno("mmap");
  begin_ = static_cast<std::byte*>(room);
  try {
    MapPart(fd, 0, 0, kControlBytes);
    for (const size_t ring : {size_t{0}, size_t{1}}) {
      const size_t from = kControlBytes + ring * ring_bytes;
      const size_t place = kControlBytes + 2 * ring * ring_bytes;
      MapPart(fd, place, from, ring_bytes);
      MapPart(fd, place + ring_bytes, from, ring_bytes);
    }
  } catch (const Error&) {
    munmap(room, MappedBytes(ring_bytes));
    throw;
  }
}

void Segment::MapPart(const UniqueFd& fd, size_t place, size_t from, size_t bytes) {
  // Populated: the first message is not slowed down by a page fault for every 4 KiB.
  if (mmap(begin_ + place, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE | MAP_FIXED,
           fd.get(), static_cast<off_t>(from)) == MAP_FAILED) {
    ThrowErrno("mmap");
  }
}

Segment::Segment(Segment&& other) noexcept
    : begin_(std::exchange(other.begin_, nullptr)), ring_bytes_(other.ring_bytes_) {}

Segment::~Segment() {
  if (begin_ != nullptr) munmap(begin_, MappedBytes(ring_bytes_));
}

Memory Segment::memory() const {
  return {*std::launder(reinterpret_cast<Control*>(begin_)),
          {begin_ + kControlBytes, ring_bytes_},
          {begin_ + kControlBytes + 2 * ring_bytes_, ring_bytes_}};
}

}  // namespace tfdist::runtime::shm
