// What a task prints cannot drive the user's terminal (RELIABILITY F79).
#pragma once

#include <string>
#include <string_view>

namespace tfdist::cli {

// One line without its newline, made safe to show: colours (SGR sequences) and tabs stay, every
// other control character becomes visible ("^[", "\x9b"), bytes that are not UTF-8 become U+FFFD.
// Of a line that rewrites itself with carriage returns, as progress bars do, the last state is
// kept. Sources: ECMA-48 8.3.117 (SGR), RFC 3629 (UTF-8).
std::string SafeForTerminal(std::string_view line);

}  // namespace tfdist::cli
