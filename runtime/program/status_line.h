// One line at the bottom of a terminal that is written over, below lines that stay.
#pragma once

#include <cstddef>
#include <string>

#include "runtime/common/say.h"

namespace tfdist::runtime {

// One thread. Where standard output is no terminal, or TERM is "dumb", there is no status line.
class StatusLine {
 public:
  // `say` writes a line that stays, to the same terminal.
  explicit StatusLine(Say say);
  // Leaves no status line behind.
  ~StatusLine();
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  [[nodiscard]] bool is_shown() const { return can_write_over_; }
  // In the place of the one before, cut to the width of the terminal.
  void Show(const std::string& text);
  // A line that stays, above the status line.
  void SayLine(const std::string& line);

 private:
  void Clear();
  void Draw() const;

  Say say_;
  bool can_write_over_;
  std::string text_;
};

}  // namespace tfdist::runtime
