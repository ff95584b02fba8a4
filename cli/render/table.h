// Columns of text, each as wide as its widest cell.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/display_width.h"

namespace tfdist::cli {

// Lines of at most `columns`; a word that is longer stands on its own.
std::vector<std::string> Wrapped(std::string_view text, size_t columns);

// Two blanks between columns, none at the end of a line. Every row has as many cells as the first. `columns`: of a
// terminal, whose width no line is to pass: cells of the widest columns lose their middle ("pyth…n.py"), but for the first,
// which names its row: a line passes the width where that column does. 0: no limit, for a pipe: all is whole, and no column but
// the first is padded to more than 32.
std::string AlignColumns(const std::vector<std::vector<std::string>>& rows, size_t columns = 0);

}  // namespace tfdist::cli
