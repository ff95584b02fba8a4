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

// Whatever ssh(1) takes as a destination without a user, but for what may mean something else elsewhere: control
// characters, blanks, what a shell reads, a "-" in front, a ":" outside of an IPv6 address, numbers that are no address.
// A name may hold "/", and is no part of a path.
bool IsSshName(std::string_view text);

// "[fd00::7]" -> "fd00::7"
std::string_view WithoutBrackets(std::string_view text);

// The address without brackets, otherwise as it was written; nothing is looked up.
std::variant<std::string, BadAddress> ParseAddress(std::string_view text);

// Equal for equal addresses: IPv6 in its shortest form, IPv4 with four numbers, names in lower case.
std::string CanonicalAddress(std::string_view address);

// IPv4 or IPv6, without brackets or a zone.
bool IsNumericAddress(std::string_view address);

// 127.0.0.0/8, ::1, localhost: this very machine, whoever looks.
bool IsLoopback(std::string_view address);

}  // namespace tfdist::cli
