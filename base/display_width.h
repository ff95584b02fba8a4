// How much room text takes on a terminal, whose columns are not its bytes.
#pragma once

#include <cstddef>
#include <string_view>

namespace tfdist {

// In columns: characters of East Asia and emoji take two, marks that combine none.
size_t DisplayWidth(std::string_view text);

// As much of the beginning, or of the end, as fits into `columns`, in whole characters.
std::string_view FirstColumns(std::string_view text, size_t columns);
std::string_view LastColumns(std::string_view text, size_t columns);

}  // namespace tfdist
