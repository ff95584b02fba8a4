// What a host may be called, and when two names are one machine.
#pragma once

#include <string>
#include <string_view>
#include <variant>

namespace tfdist::cli {

struct BadAddress {
  std::string why;
  std::string hint;
};

// The address without brackets, otherwise as it was written; nothing is looked up.
std::variant<std::string, BadAddress> ParseAddress(std::string_view text);

// Equal for equal addresses: IPv6 in its shortest form, names in lower case.
std::string CanonicalAddress(std::string_view address);

// IPv4 or IPv6, without brackets or a zone.
bool IsNumericAddress(std::string_view address);

// 127.0.0.0/8, ::1, localhost: this very machine, whoever looks.
bool IsLoopback(std::string_view address);

}  // namespace tfdist::cli
