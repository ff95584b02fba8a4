#include "runtime/table.h"

#include <fmt/format.h>

namespace tfdist::runtime {

std::string ToString(const TablePart& part) {
  std::string text = fmt::format("{} [{},{}]", part.table, part.rows, part.width);
  if (part.first > 0 || part.step > 1) text += fmt::format(" from row {}", part.first);
  if (part.step > 1) text += fmt::format(" in steps of {}", part.step);
  return text;
}

}  // namespace tfdist::runtime
