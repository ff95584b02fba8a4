#include "runtime/cuda/timeline.h"

#include <cuda_runtime_api.h>

#include <algorithm>

#include "runtime/cuda/check.h"

namespace tfdist::runtime::cuda {

Timeline::Timeline() {
  // Not the default stream, which waits for all others and lets them wait.
  Check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream");
}

Timeline::~Timeline() {
  (void)cudaStreamSynchronize(stream_);
  for (const Recorded& recorded : recorded_) (void)cudaEventDestroy(recorded.event);
  for (cudaEvent_t event : spare_) (void)cudaEventDestroy(event);
  (void)cudaStreamDestroy(stream_);
}

uint64_t Timeline::CountWithEvent() {
  (void)EventAfter(++count_);
  return count_;
}

const Timeline::Recorded& Timeline::EventAfter(uint64_t piece) {
  const auto found = std::lower_bound(
      recorded_.begin(), recorded_.end(), piece,
      [](const Recorded& recorded, uint64_t number) { return recorded.count < number; });
  if (found != recorded_.end()) return *found;
  ForgetWhatIsDone();
  cudaEvent_t event = nullptr;
  if (spare_.empty()) {
    Check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "making an event");
  } else {
    event = spare_.back();
    spare_.pop_back();
  }
  recorded_.push_back({count_, event});
  Check(cudaEventRecord(event, stream_), "recording an event");
  return recorded_.back();
}

void Timeline::Forget(uint64_t passed) {
  passed_ = std::max(passed_, passed);
  while (!recorded_.empty() && recorded_.front().count <= passed_) {
    spare_.push_back(recorded_.front().event);
    recorded_.pop_front();
  }
}

// Keeps the list short where nobody asks: one look at the oldest event a time.
void Timeline::ForgetWhatIsDone() {
  while (!recorded_.empty()) {
    const cudaError_t answer = cudaEventQuery(recorded_.front().event);
    if (answer == cudaErrorNotReady) {
      (void)cudaGetLastError();  // no failure: the next launch must not find it
      return;
    }
    Check(answer, "asking what is done");
    Forget(recorded_.front().count);
  }
}

bool Timeline::HasPassed(uint64_t piece) {
  if (piece <= passed_) return true;
  const Recorded recorded = EventAfter(piece);
  const cudaError_t answer = cudaEventQuery(recorded.event);
  if (answer == cudaErrorNotReady) {
    (void)cudaGetLastError();  // no failure: the next launch must not find it
    return false;
  }
  Check(answer, "asking what is done");
  Forget(recorded.count);
  return true;
}

void Timeline::Wait(uint64_t piece) {
  if (piece <= passed_) return;
  const Recorded recorded = EventAfter(piece);
  Check(cudaEventSynchronize(recorded.event), "waiting");
  Forget(recorded.count);
}

void Timeline::LetWait(const Timeline& other, uint64_t piece) {
  if (piece <= passed_) return;
  Check(cudaStreamWaitEvent(other.stream(), EventAfter(piece).event, 0), "letting a stream wait");
}

}  // namespace tfdist::runtime::cuda
