// A request that is answered by many messages: events, or the output of a task.
#pragma once

#include <cstdint>

namespace tfdist::agent {

class Stream {
 public:
  Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  // Ends it without a word: cancelled, or its session is gone.
  virtual ~Stream() = default;

  // The reader can take this many more bytes.
  virtual void Credit(uint64_t bytes) = 0;
  // The way to the reader has room again, or there may be something new: goes on.
  virtual void Pump() = 0;
  // Everything has been sent.
  [[nodiscard]] virtual bool ended() const = 0;
};

}  // namespace tfdist::agent
