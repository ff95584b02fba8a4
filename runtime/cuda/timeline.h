// A stream of the GPU on which work is counted, so that the host and other streams can wait for a
// certain piece of it, and for no more.
#pragma once

#include <driver_types.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

namespace tfdist::runtime::cuda {

// One thread. Throws Error(kRun).
class Timeline {
 public:
  Timeline();
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;
  ~Timeline();  // waits for all

  [[nodiscard]] cudaStream_t stream() const { return stream_; }
  // Something was put on the stream. Its number: from 1, each one higher than the last.
  uint64_t Count() { return ++count_; }
  // The same, of what will be waited for by itself: not with what was put on the stream before somebody
  // asked for it.
  uint64_t CountWithEvent();
  [[nodiscard]] uint64_t count() const { return count_; }

  // Whether number `piece` and all before it are done. Without waiting.
  bool HasPassed(uint64_t piece);
  // Until it is.
  void Wait(uint64_t piece);
  // What is put on `other` from now on begins when `piece` of this one is done.
  void LetWait(const Timeline& other, uint64_t piece);

 private:
  struct Recorded {
    uint64_t count;  // pieces that are done when the event is
    cudaEvent_t event;
  };
  // The first event after `piece`; a new one where there is none.
  const Recorded& EventAfter(uint64_t piece);
  void ForgetWhatIsDone();
  void Forget(uint64_t passed);

  cudaStream_t stream_ = nullptr;
  uint64_t count_ = 0;
  uint64_t passed_ = 0;             // known to be done
  std::deque<Recorded> recorded_;   // not known to be done, oldest first
  std::vector<cudaEvent_t> spare_;  // to be used again
};

}  // namespace tfdist::runtime::cuda
