#include "agent/control/host_names.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <memory>

#include "base/error.h"
#include "base/file.h"
#include "base/getent.h"
#include "base/text.h"

namespace tfdist::agent {
namespace {

constexpr size_t kMostAddresses = 16;
constexpr size_t kMostHostsFileBytes = 16 << 20;  // of blocklists some have megabytes
constexpr const char* kHostsFile = "/etc/hosts";
constexpr const char* kRemedy =
    "add the name to the DNS or to /etc/hosts of that host, or write numeric addresses in `hosts`";

constexpr std::string_view kBlanks = " \t\r";

std::string_view TakeLine(std::string_view& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

// Empty at the end of the line.
std::string_view TakeWord(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(kBlanks), line.size()));
  const size_t end = std::min(line.find_first_of(kBlanks), line.size());
  const std::string_view word = line.substr(0, end);
  line.remove_prefix(end);
  return word;
}

void AddAddress(std::string_view word, std::vector<std::string>& addresses) {
  std::string address(word);
  // A link-local one has a zone, which TensorFlow cannot take: it is passed over, as what is no
  // address at all.
  if (addresses.size() == kMostAddresses || !IsNumericAddress(address)) return;
  if (std::find(addresses.begin(), addresses.end(), address) != addresses.end()) return;
  addresses.push_back(std::move(address));
}

bool SameName(std::string_view a, std::string_view b) { return LowerCase(a) == LowerCase(b); }

std::vector<std::string> LookIntoHostsFile(const std::string& host) {
  const auto text = ReadFileIfExists(kHostsFile, kMostHostsFileBytes);
  auto addresses = AddressesInHostsFile(text.value_or(""), host);
  if (!addresses.empty()) return addresses;
  throw Error(Phase::kResolve,
              fmt::format("cannot resolve {}: getent cannot be run on this host, and {} does not "
                          "have the name",
                          host, kHostsFile),
              "write numeric addresses in `hosts`, or install getent on that host");
}

std::vector<std::string> OwnAddresses() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  std::vector<std::string> addresses;
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr) continue;
    std::array<char, INET6_ADDRSTRLEN> text{};
    const int family = one->ifa_addr->sa_family;
    if (family == AF_INET) {
      const auto* v4 = reinterpret_cast<const sockaddr_in*>(one->ifa_addr);
      inet_ntop(family, &v4->sin_addr, text.data(), text.size());
    } else if (family == AF_INET6) {
      const auto* v6 = reinterpret_cast<const sockaddr_in6*>(one->ifa_addr);
      inet_ntop(family, &v6->sin6_addr, text.data(), text.size());
    }
    if (text[0] != '\0') addresses.emplace_back(text.data());
  }
  return addresses;
}

}  // namespace

bool IsNumericAddress(const std::string& text) {
  std::array<unsigned char, sizeof(in6_addr)> address{};
  return inet_pton(AF_INET, text.c_str(), address.data()) == 1 ||
         inet_pton(AF_INET6, text.c_str(), address.data()) == 1;
}

bool IsLocalhostName(std::string_view name) {
  constexpr std::string_view kName = "localhost";
  if (name.size() < kName.size()) return false;
  const size_t begin = name.size() - kName.size();
  return SameName(name.substr(begin), kName) && (begin == 0 || name[begin - 1] == '.');
}

std::vector<std::string> ResolveHost(const std::string& host, TimePoint deadline) {
  if (IsNumericAddress(host)) return {host};
  if (IsLocalhostName(host)) return {"127.0.0.1"};
  // It becomes an argument of a program.
  if (host.empty() || host.front() == '-' || host.find('\0') != std::string::npos) {
    throw Error(Phase::kResolve, fmt::format("'{}' is no name of a host", host));
  }
  const auto answer = AskGetent("ahosts", host, deadline);
  if (!answer) return LookIntoHostsFile(host);
  std::vector<std::string> addresses;
  if (answer->exit_code == 0) addresses = AddressesInAnswer(answer->output);
  if (!addresses.empty()) return addresses;
  throw Error(Phase::kResolve,
              fmt::format("cannot resolve {}: {}", host, WhyGetentHasNone(*answer)), kRemedy);
}

protocol::ResolvedNames ResolveHosts(const std::vector<std::string>& names, TimePoint deadline) {
  protocol::ResolvedNames answers;
  for (const std::string& name : names) {
    protocol::ResolvedName answer{.name = name, .addresses = {}, .why = ""};
    try {
      answer.addresses = ResolveHost(name, deadline);
    } catch (const Error& error) {
      answer.why = error.cause();
    }
    answers.names.push_back(std::move(answer));
  }
  answers.own = OwnAddresses();
  return answers;
}

std::vector<std::string> AddressesInAnswer(std::string_view answer) {
  std::vector<std::string> addresses;
  while (!answer.empty()) {
    std::string_view line = TakeLine(answer);
    AddAddress(TakeWord(line), addresses);
  }
  return addresses;
}

std::vector<std::string> AddressesInHostsFile(std::string_view text, std::string_view name) {
  std::vector<std::string> addresses;
  while (!text.empty()) {
    std::string_view line = TakeLine(text);
    line = line.substr(0, line.find('#'));
    const std::string_view address = TakeWord(line);
    for (std::string_view word = TakeWord(line); !word.empty(); word = TakeWord(line)) {
      if (SameName(word, name)) AddAddress(address, addresses);
    }
  }
  return addresses;
}

}  // namespace tfdist::agent
