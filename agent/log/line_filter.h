// Lines in which a pattern is found.
#pragma once

#include <regex.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace tfdist::agent {

class LineFilter {
 public:
  // A POSIX extended regular expression, as grep -E; bytes, not characters. Throws UsageError, also
  // for what could take longer than the text is long: back-references, groups that are repeated by {}.
  explicit LineFilter(const std::string& pattern);

  // Looks at `text`, which begins with a line; one without any newline is a line. Says how many
  // bytes lie before the first line that fits, or before the unfinished line at the end;
  // found_bytes() is that line's length with its newline, or 0.
  uint64_t Look(std::string_view text);
  // Of the line that was found, what has not been taken yet.
  [[nodiscard]] uint64_t found_bytes() const { return found_bytes_; }
  void Take(uint64_t bytes);

 private:
  [[nodiscard]] bool Fits(std::string_view line) const;

  struct Free {
    void operator()(regex_t* pattern) const;
  };
  std::unique_ptr<regex_t, Free> pattern_;
  uint64_t found_bytes_ = 0;
};

}  // namespace tfdist::agent
