#include "agent/control/host_names.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <memory>

#include "base/error.h"
#include "base/getent.h"
#include "base/hosts_file.h"
#include "base/text.h"

namespace tfdist::agent {
namespace {

constexpr size_t kMostAddresses = 16;
constexpr const char* kRemedy =
    "add the name to the DNS or to /etc/hosts of that host, or name hosts by numeric addresses";

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
  std::vector<std::string> addresses;
  for (const std::string& word : AddressesInHostsFile(host)) AddAddress(word, addresses);
  if (!addresses.empty()) return addresses;
  throw Error(Phase::kResolve,
              fmt::format("cannot resolve {}: getent cannot be run on this host, and {} does not "
                          "have the name",
                          host, kHostsFile),
              "name hosts by numeric addresses, or install getent on that host");
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
    std::string_view line = TakeUpTo('\n', answer);
    AddAddress(TakeWord(line), addresses);
  }
  return addresses;
}

}  // namespace tfdist::agent
