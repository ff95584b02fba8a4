// Batches of a shard in an order that follows from a seed, made ready by a thread of its own while
// others are computed with.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <stop_token>
#include <thread>
#include <vector>

#include "base/thread_annotations.h"
#include "runtime/data/dataset.h"

namespace tfdist::runtime {

class BatchReader {
 public:
  // Of at most 16 batches ahead, and 64 MiB of pixels (but two batches in any case). `dataset` is
  // borrowed, and not changed meanwhile. `shard` must not be empty.
  BatchReader(const Dataset& dataset, std::vector<size_t> shard, uint64_t seed, size_t batch_size);
  BatchReader(const BatchReader&) = delete;
  BatchReader& operator=(const BatchReader&) = delete;
  // Ends the thread, which may be in the midst of a batch.
  ~BatchReader();

  // The next one, as Sampler gives them. What `batch` held is used again. Throws what the thread
  // has failed with: out of memory.
  void Next(Batch& batch);

 private:
  void Read(const std::stop_token& stop);
  void ReadUntil(const std::stop_token& stop);

  const Dataset& dataset_;
  Sampler sampler_;
  const size_t batch_size_;
  const size_t ahead_;  // batches

  Mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Batch> ready_ GUARDED_BY(mutex_);
  std::vector<Batch> empty_ GUARDED_BY(mutex_);
  std::exception_ptr failure_ GUARDED_BY(mutex_);
  std::jthread thread_;
};

}  // namespace tfdist::runtime
