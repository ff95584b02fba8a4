// Finds where the last lines of a log begin, from its end backwards: in steps, as a log may be long
// and others wait for the same thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "agent/log/log_reader.h"

namespace tfdist::agent {

// For the thread of its reader, which is the same one in every call.
class LineSearch {
 public:
  // The last ones before `size`. A last line without newline counts. `stderr_alone`: lines of stdout do not.
  LineSearch(LogReader& reader, uint64_t lines, uint64_t size, LogEnd end,
             bool stderr_alone = false);

  // Looks at `max_bytes` more, or a little more than that. False: not found yet.
  bool Step(LogReader& reader, size_t max_bytes);
  // Where the lines begin; until that is found, how far back was looked.
  [[nodiscard]] uint64_t offset() const { return position_; }

 private:
  bool LookAt(const std::string& text);
  void BlankStdout(LogReader& reader, std::string& text) const;

  LogEnd end_;
  bool stderr_alone_;
  uint64_t lines_;         // still to be found
  uint64_t position_;      // what is behind it has been looked at
  uint64_t first_;         // of the log
  bool last_byte_ = true;  // a newline there ends the last line, it does not begin another one
};

}  // namespace tfdist::agent
