// What to do about the last lines of a task that has failed, where they are those of a mistake that many make.
#pragma once

#include <string>
#include <string_view>

namespace tfdist::cli {

// Of a missing Python module, and of a program that reads its input, which is empty. Empty: nothing is known.
std::string RemedyForEnd(std::string_view lines);

}  // namespace tfdist::cli
