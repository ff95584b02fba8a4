#include "base/text.h"

namespace tfdist {

void ReplaceAll(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

std::string_view TakeUpTo(char separator, std::string_view& text) {
  const size_t end = text.find(separator);
  const std::string_view taken = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return taken;
}

std::string ShellQuoted(std::string_view text) {
  // Nothing is special between single quotes but the quote itself.
  std::string quoted(text);
  ReplaceAll(quoted, "'", "'\\''");
  return "'" + quoted + "'";
}

}  // namespace tfdist
