// Words as a POSIX shell reads them.
#pragma once

#include <string>
#include <string_view>

namespace tfdist::cli {

// For the eye: plain where that is safe, else in quotes; control characters as $'\n', as bash
// writes them, so that one word stays on its line and a terminal takes no orders from it.
std::string ShellWord(std::string_view text);

// A name that sh(1) can assign to.
bool IsShellName(std::string_view name);

}  // namespace tfdist::cli
