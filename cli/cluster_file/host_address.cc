#include "cli/cluster_file/host_address.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/text.h"
#include "cli/cluster_file/problems.h"

namespace tfdist::cli {
namespace {

constexpr size_t kLongestHostName = 253;  // RFC 1035 2.3.4, as text
constexpr size_t kLongestLabel = 63;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool IsLabelCharacter(char c) { return IsLetter(c) || IsDigit(c) || c == '-' || c == '_'; }

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

bool IsLabel(std::string_view label) {
  return !label.empty() && label.size() <= kLongestLabel && label.front() != '-' &&
         std::all_of(label.begin(), label.end(), IsLabelCharacter);
}

bool IsHostName(std::string_view name) {
  if (name.size() > kLongestHostName) return false;
  while (true) {
    const size_t dot = name.find('.');
    if (!IsLabel(name.substr(0, dot))) return false;
    if (dot == std::string_view::npos) return true;
    name.remove_prefix(dot + 1);
  }
}

bool IsNumeric(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return IsDigit(c) || c == '.'; });
}

BadAddress Explain(std::string_view text) {
  if (text.find('%') != std::string_view::npos) {
    return {"an IPv6 zone means something on one machine only", {}};
  }
  return {
      fmt::format("{} is neither a host name nor an address", Quoted(text)),
      "write \"gpu7\", \"10.0.0.7\", \"fd00::7\", or a range: \"gpu[01-16]\", \"10.0.0.[1-4,7]\""};
}

std::string_view WithoutBrackets(std::string_view text) {
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return text;
  const std::string_view inner = text.substr(1, text.size() - 2);
  return inner.find(':') == std::string_view::npos ? text : inner;
}

bool IsUnspecified(std::string_view address) {
  const auto ipv4 = ParseIpv4(address);
  const auto ipv6 = ParseIpv6(address);
  return (ipv4 && ipv4->s_addr == INADDR_ANY) || (ipv6 && IN6_IS_ADDR_UNSPECIFIED(&*ipv6));
}

}  // namespace

std::variant<std::string, BadAddress> ParseAddress(std::string_view text) {
  const std::string_view address = WithoutBrackets(text);
  if (IsUnspecified(address)) {
    return BadAddress{fmt::format("{} is every address, not one host's", Quoted(address)), {}};
  }
  const bool known = IsNumeric(address) ? ParseIpv4(address).has_value()
                                        : ParseIpv6(address) || IsHostName(address);
  if (!known) return Explain(text);
  return std::string(address);
}

std::string CanonicalAddress(std::string_view address) {
  if (const auto ipv6 = ParseIpv6(address)) {
    char text[INET6_ADDRSTRLEN];
    return inet_ntop(AF_INET6, &*ipv6, text, sizeof text);
  }
  return LowerCase(address);
}

bool IsNumericAddress(std::string_view address) { return ParseIpv4(address) || ParseIpv6(address); }

bool IsLoopback(std::string_view address) {
  if (const auto ipv4 = ParseIpv4(address)) return (ntohl(ipv4->s_addr) >> 24) == IN_LOOPBACKNET;
  if (const auto ipv6 = ParseIpv6(address)) return IN6_IS_ADDR_LOOPBACK(&*ipv6);
  return CanonicalAddress(address) == "localhost";
}

}  // namespace tfdist::cli
