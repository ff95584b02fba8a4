// Makes output of tasks safe to show: it cannot control the user's terminal.
#pragma once

#include <string>
#include <string_view>

namespace tfdist::cli {

// Whether colours (SGR sequences) of the text stay, or are left out.
enum class Colours { kKeep, kDrop };

// One line of a task without its newline, made safe to show: colours and tabs stay, every other
// control character becomes visible ("^[", "\x9b"), also those that change the order of the text
// (bidirectional ones); bytes that are not UTF-8 become U+FFFD. Of a line that rewrites itself with
// carriage returns, as progress bars do, the last state is kept. Sources: ECMA-48 8.3.117 (SGR),
// RFC 3629 (UTF-8), Unicode TR9 2 (bidirectional controls).
std::string SafeForTerminal(std::string_view line, Colours colours = Colours::kKeep);

// The same for other text: without colours, and a carriage return becomes visible, too.
std::string WithoutControls(std::string_view text);

}  // namespace tfdist::cli
