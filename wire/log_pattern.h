// The pattern of `logs --grep`: a POSIX extended regular expression, as grep -E has it; bytes, not
// characters. Hosts search with it; the CLI refuses before it asks them what they would refuse.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace tfdist::protocol {

// All its ways through a line are followed side by side: a search takes at most a step for each byte
// and each instruction, whatever the pattern, and never more memory. regexec(3) promises neither, and
// a host that means harm may have sent the pattern. Without back-references, which need more.
class LogPattern {
 public:
  // Throws UsageError, also for what could take long: see kMostInstructions.
  explicit LogPattern(const std::string& pattern);
  LogPattern(LogPattern&&) noexcept;
  ~LogPattern();

  // `line`: without its newline; may hold NUL bytes.
  [[nodiscard]] bool FoundIn(std::string_view line);

  // What a pattern may become once its repetitions are written out.
  static constexpr size_t kMostInstructions = 4096;

 private:
  class Search;
  std::unique_ptr<Search> search_;
};

}  // namespace tfdist::protocol
