// "~" in words that the user writes for hosts.
#pragma once

#include <cstddef>
#include <string_view>

namespace tfdist {

// Where "~" or "~/..." begins in a word of a command: as the whole word, or behind the "--data=" of one; npos: nowhere. It
// stands for the home folder of the host, as a shell there would have it.
size_t HomeIn(std::string_view word);

}  // namespace tfdist
