// Columns of text, each as wide as its widest cell.
#pragma once

#include <string>
#include <vector>

namespace tfdist::cli {

// Two blanks between columns, none at the end of a line. Every row has as many cells as the first.
std::string AlignColumns(const std::vector<std::vector<std::string>>& rows);

}  // namespace tfdist::cli
