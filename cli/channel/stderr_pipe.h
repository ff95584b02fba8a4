// The stderr of a program on this machine.
#pragma once

#include <string>
#include <utility>

#include "base/unique_fd.h"

namespace tfdist::cli {

// Owns the end that is read. A program whose pipe is full stops until somebody takes from it: whoever waits for the program
// polls this as well.
class StderrPipe {
 public:
  // `read_end`: non-blocking.
  explicit StderrPipe(UniqueFd read_end) : read_end_(std::move(read_end)) {}

  // To be polled; -1 once the program has closed it.
  [[nodiscard]] int fd() const { return read_end_.get(); }
  // What is there, without waiting.
  void Take();
  // The last 64 KiB.
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  UniqueFd read_end_;
  std::string text_;
};

// Readable (epoll(7)) when `stream` or the pipe is. Throws Error(kExec).
UniqueFd PollBoth(int stream, const StderrPipe& errors);

}  // namespace tfdist::cli
