// What hosts are sent that lack it, by its content: data, and images.
#pragma once

#include <functional>
#include <future>
#include <string>

#include "base/thread_annotations.h"
#include "cli/deploy/packed_file.h"
#include "wire/data.h"

namespace tfdist::cli {

class SentParts {
 public:
  SentParts() = default;
  virtual ~SentParts() = default;
  SentParts(const SentParts&) = delete;
  SentParts& operator=(const SentParts&) = delete;

  // 64 hexadecimal digits.
  [[nodiscard]] virtual const std::string& key() const = 0;
  // About how much that is.
  [[nodiscard]] virtual uint64_t size_bytes() const = 0;
  // What a host is sent that lacks all of it; made once, for the first that asks. `meanwhile` is called each second.
  // Any thread. Throws Error(kFiles), also for what has changed since it was looked at, and what `meanwhile` throws.
  virtual const protocol::DataOffer& Offer(const std::function<void()>& meanwhile) = 0;
  // As WorkdirParts has it; nullptr before there is an offer.
  virtual const PackedFile* Pack(const std::string& sha256,
                                 const std::function<void()>& meanwhile) = 0;
};

// An offer that is made once, by a thread of its own. As the last member of its owner it is the first to go, which waits for
// that thread.
class OfferOnce {
 public:
  const protocol::DataOffer& Get(const std::function<protocol::DataOffer()>& make,
                                 const std::function<void()>& meanwhile);

 private:
  Mutex mutex_;
  std::shared_future<protocol::DataOffer> made_ GUARDED_BY(mutex_);
};

}  // namespace tfdist::cli
