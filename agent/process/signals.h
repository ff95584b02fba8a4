// Signals as events of a poll loop, for keeper and holder.
#pragma once

#include <initializer_list>
#include <vector>

#include "base/unique_fd.h"

namespace tfdist::agent {

// Blocks `signals` and reads them instead. What is blocked already, and pending, since before an
// exec is read, too: none is lost between fork and the first poll. Single-threaded processes only.
class Signals {
 public:
  // Throws Error(kInternal).
  explicit Signals(std::initializer_list<int> signals);

  // For poll(2).
  [[nodiscard]] int fd() const { return fd_.get(); }
  // Those that have come, in no special order; several of a kind may count as one.
  [[nodiscard]] std::vector<int> Take();

 private:
  UniqueFd fd_;
};

}  // namespace tfdist::agent
