// Numbers of bytes and of things, for people.
#pragma once

#include <cstdint>
#include <string>

namespace tfdist {

// "812 bytes", "12 kB", "83 MB", "3.1 GB": powers of 1,000; a decimal below 10.
std::string SizeText(uint64_t bytes);
// "1,204".
std::string CountText(uint64_t count);

}  // namespace tfdist
