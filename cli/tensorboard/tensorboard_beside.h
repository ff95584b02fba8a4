// TensorBoard beside `up`: `tfdist tensorboard` as a child process, so that nothing it does or waits
// for can slow `up` or end it.
#pragma once

#include <optional>
#include <string>

#include "base/unique_fd.h"
#include "cli/channel/child.h"

namespace tfdist::cli {

class TensorBoardBeside {
 public:
  // Starts it for a job that this machine has a record of. Throws nothing: a failure is printed as a
  // warning.
  explicit TensorBoardBeside(const std::string& job);
  TensorBoardBeside(const TensorBoardBeside&) = delete;
  TensorBoardBeside& operator=(const TensorBoardBeside&) = delete;
  // Ends it, and with it what it has started on a host; waits for that for 5 s at most.
  ~TensorBoardBeside();

  // Whole lines for the user come out of it: its address, or why there is none. -1: it does not run.
  [[nodiscard]] int lines_fd() const { return lines_.get(); }

 private:
  UniqueFd lines_;
  std::optional<Child> child_;
};

}  // namespace tfdist::cli
