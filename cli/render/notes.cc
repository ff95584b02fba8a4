#include "cli/render/notes.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cli/render/table.h"

namespace tfdist::cli {
namespace {

constexpr size_t kColumns = 100;

std::string OnOneLine(std::string text) {
  std::ranges::replace_if(
      text, [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  return text;
}

}  // namespace

void Notes::Add(std::string note) {
  note = OnOneLine(std::move(note));
  if (std::ranges::find(notes_, note) == notes_.end()) notes_.push_back(std::move(note));
}

std::string CommentLines(std::string sentence, const std::string& mark) {
  std::string lines;
  for (const std::string& line : Wrapped(OnOneLine(std::move(sentence)), kColumns)) {
    lines += fmt::format("# {}{}\n", lines.empty() ? mark : std::string(mark.size(), ' '), line);
  }
  return lines;
}

}  // namespace tfdist::cli
