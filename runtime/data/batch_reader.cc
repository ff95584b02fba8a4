#include "runtime/data/batch_reader.h"

#include <algorithm>
#include <utility>

namespace tfdist::runtime {
namespace {

constexpr size_t kMostAhead = 16;
constexpr size_t kBytesAhead = size_t{64} << 20;

size_t BatchesAhead(size_t batch_bytes) {
  return std::clamp<size_t>(kBytesAhead / batch_bytes, 2, kMostAhead);
}

}  // namespace

BatchReader::BatchReader(const Dataset& dataset, std::vector<size_t> shard, uint64_t seed,
                         size_t batch_size)
    : dataset_(dataset),
      sampler_(std::move(shard), seed),
      batch_size_(batch_size),
      ahead_(BatchesAhead(batch_size * dataset.images.pixels() * sizeof(float))),
      thread_([this](const std::stop_token& stop) { Read(stop); }) {}

BatchReader::~BatchReader() = default;

void BatchReader::Next(Batch& batch) {
  const MutexLock lock(mutex_);
  while (ready_.empty() && !failure_) changed_.wait(mutex_);
  if (ready_.empty()) std::rethrow_exception(failure_);
  empty_.push_back(std::exchange(batch, std::move(ready_.front())));
  ready_.pop_front();
  // The thread is woken for several batches at once: a change of threads takes longer than a small
  // batch.
  if (ready_.size() == ahead_ / 2) changed_.notify_all();
}

void BatchReader::Read(const std::stop_token& stop) {
  try {
    ReadUntil(stop);
  } catch (...) {
    const MutexLock lock(mutex_);
    failure_ = std::current_exception();
    changed_.notify_all();
  }
}

void BatchReader::ReadUntil(const std::stop_token& stop) {
  Batch batch;
  while (!stop.stop_requested()) {
    FillBatch(dataset_, sampler_.Next(batch_size_), batch);
    const MutexLock lock(mutex_);
    ready_.push_back(std::exchange(batch, Batch()));
    if (!empty_.empty()) {
      batch = std::move(empty_.back());
      empty_.pop_back();
    }
    if (ready_.size() == 1) changed_.notify_all();
    if (ready_.size() < ahead_) continue;
    changed_.wait(mutex_, stop, [this]() REQUIRES(mutex_) { return ready_.size() <= ahead_ / 2; });
  }
}

}  // namespace tfdist::runtime
