#include "base/home_word.h"

#include <algorithm>

namespace tfdist {
namespace {

bool IsNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == ':' || c == '.' || c == '-';
}

}  // namespace

size_t HomeIn(std::string_view word) {
  const auto is_home = [](std::string_view path) { return path == "~" || path.starts_with("~/"); };
  if (is_home(word)) return 0;
  const size_t equals = word.find('=');
  if (equals == word.npos || equals == 0) return word.npos;
  if (!std::ranges::all_of(word.substr(0, equals), IsNameCharacter)) return word.npos;
  return is_home(word.substr(equals + 1)) ? equals + 1 : word.npos;
}

}  // namespace tfdist
