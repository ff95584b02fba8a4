#include "cli/show/same_end.h"

#include <cctype>
#include <string>

#include "base/text.h"

namespace tfdist::cli {
namespace {

// The last of several is the one that ended the program.
std::string_view FromTraceback(std::string_view lines) {
  const size_t begin = lines.rfind("Traceback (most recent call last):");
  return begin == lines.npos ? lines : lines.substr(begin);
}

// "/jobs/ID/h12/work" and "/jobs/ID/run/work" -> "/jobs/ID/h/work".
std::string WithoutSlots(std::string_view lines) {
  constexpr std::string_view kSlot = "/h";
  std::string text;
  for (size_t at = 0; at < lines.size(); ++at) {
    text += lines[at];
    if (!text.ends_with(kSlot)) continue;
    size_t end = at + 1;
    while (end < lines.size() && isdigit(static_cast<unsigned char>(lines[end])) != 0) ++end;
    if (lines.substr(end).starts_with('/')) at = end - 1;
  }
  ReplaceAll(text, "/run/work", "/h/work");
  return text;
}

}  // namespace

bool EndAlike(std::string_view lines, std::string_view others) {
  return !lines.empty() &&
         WithoutSlots(FromTraceback(lines)) == WithoutSlots(FromTraceback(others));
}

}  // namespace tfdist::cli
