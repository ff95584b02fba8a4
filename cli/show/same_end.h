// Tasks that have ended with the same words: of sixteen tracebacks one is read.
#pragma once

#include <string_view>

namespace tfdist::cli {

// Whether the last lines of two tasks tell the same. Of a Python traceback, what stands before it does not count; nor
// does the number of the slot in a path of a task's folder.
bool EndAlike(std::string_view lines, std::string_view others);

}  // namespace tfdist::cli
