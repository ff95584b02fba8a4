// The pattern of `logs --grep`: a POSIX extended regular expression, as grep -E has it; bytes, not
// characters. Hosts search with it; the CLI refuses before it asks them what they would refuse.
#pragma once

#include <regex.h>

#include <memory>
#include <string>
#include <string_view>

namespace tfdist::protocol {

class LogPattern {
 public:
  // Throws UsageError, also for what could take longer than the text is long: back-references,
  // groups that are repeated by {}.
  explicit LogPattern(const std::string& pattern);

  // `line`: without its newline; may hold NUL bytes.
  [[nodiscard]] bool FoundIn(std::string_view line) const;

 private:
  struct Free {
    void operator()(regex_t* pattern) const;
  };
  std::unique_ptr<regex_t, Free> compiled_;
};

}  // namespace tfdist::protocol
