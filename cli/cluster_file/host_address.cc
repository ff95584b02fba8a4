#include "cli/cluster_file/host_address.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/text.h"
#include "cli/cluster_file/problems.h"

namespace tfdist::cli {
namespace {

constexpr size_t kLongestName = 253;  // RFC 1035 2.3.4, as text
// What ssh refuses itself (valid_hostname() in its ssh.c), what stands for several names in a shell, and "@", which ends a user's name.
constexpr std::string_view kHarmful = " \t'`\"$\\;&<>|(){}[]*?@";

std::optional<in_addr> ParseIpv4(std::string_view text) {
  in_addr address{};
  if (inet_pton(AF_INET, std::string(text).c_str(), &address) != 1) return std::nullopt;
  return address;
}

std::optional<in6_addr> ParseIpv6(std::string_view text) {
  in6_addr address{};
  if (inet_pton(AF_INET6, std::string(text).c_str(), &address) != 1) return std::nullopt;
  return address;
}

bool IsNumeric(std::string_view text) {
  return text.find_first_not_of("0123456789.") == std::string_view::npos;
}

// "10.1" is 10.0.0.1 to ssh and to every resolver: inet_aton(3).
std::optional<in_addr> ParseShortIpv4(std::string_view text) {
  in_addr address{};
  if (!IsNumeric(text) || inet_aton(std::string(text).c_str(), &address) != 1) return std::nullopt;
  return address;
}

// UTF-8 without control characters.
bool IsText(std::string_view text) {
  const auto is_control = [](char c) { return (c >= 0 && c < ' ') || c == '\x7f'; };
  if (std::ranges::any_of(text, is_control)) return false;
  return !nlohmann::json::parse(fmt::format("\"{}\"", text), nullptr, false).is_discarded();
}

// "fe80::1%eth0"
bool HasZone(std::string_view text) {
  const size_t percent = text.find('%');
  return percent != text.npos && ParseIpv6(text.substr(0, percent));
}

BadAddress Explain(std::string_view text) {
  if (text.empty()) return {"a host's name is empty", "h1,h2: is there a comma too many?"};
  const bool has_blank = text.find(' ') != text.npos;
  return {fmt::format("{} is neither a host name nor an address", Quoted(text)),
          has_blank ? "commas stand between hosts: h1,h2"
                    : "write \"gpu7\", \"10.0.0.7\", \"fd00::7\", or a range: \"gpu[01-16]\", "
                      "\"10.0.0.[1-4,7]\""};
}

bool IsUnspecified(std::string_view address) {
  const auto ipv4 = ParseShortIpv4(address);
  const auto ipv6 = ParseIpv6(address);
  return (ipv4 && ipv4->s_addr == INADDR_ANY) || (ipv6 && IN6_IS_ADDR_UNSPECIFIED(&*ipv6));
}

}  // namespace

bool IsSshName(std::string_view text) {
  if (text.empty() || text.size() > kLongestName || text.front() == '-') return false;
  if (text.find_first_of(kHarmful) != text.npos || !IsText(text)) return false;
  if (IsNumeric(text)) return ParseShortIpv4(text).has_value();
  return text.find(':') == text.npos || ParseIpv6(text) || HasZone(text);
}

std::string_view WithoutBrackets(std::string_view text) {
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return text;
  const std::string_view inner = text.substr(1, text.size() - 2);
  return inner.find(':') == std::string_view::npos ? text : inner;
}

std::variant<std::string, BadAddress> ParseAddress(std::string_view text) {
  const std::string_view address = WithoutBrackets(text);
  if (IsUnspecified(address)) {
    return BadAddress{fmt::format("{} is every address, not one host's", Quoted(address)), {}};
  }
  if (!IsSshName(address)) return Explain(text);
  return std::string(address);
}

std::string CanonicalAddress(std::string_view address) {
  if (const auto ipv6 = ParseIpv6(address)) {
    char text[INET6_ADDRSTRLEN];
    return inet_ntop(AF_INET6, &*ipv6, text, sizeof text);
  }
  if (const auto ipv4 = ParseShortIpv4(address)) {
    char text[INET_ADDRSTRLEN];
    return inet_ntop(AF_INET, &*ipv4, text, sizeof text);
  }
  return LowerCase(address);
}

bool IsNumericAddress(std::string_view address) { return ParseIpv4(address) || ParseIpv6(address); }

bool IsLoopback(std::string_view address) {
  if (const auto ipv4 = ParseShortIpv4(address))
    return (ntohl(ipv4->s_addr) >> 24) == IN_LOOPBACKNET;
  if (const auto ipv6 = ParseIpv6(address)) return IN6_IS_ADDR_LOOPBACK(&*ipv6);
  return CanonicalAddress(address) == "localhost";
}

}  // namespace tfdist::cli
