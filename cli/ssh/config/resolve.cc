#include "cli/ssh/config/resolve.h"

#include <fmt/format.h>
#include <netdb.h>

#include <array>
#include <cstring>
#include <memory>
#include <set>
#include <string_view>

#include "base/error.h"
#include "base/failures.h"
#include "base/getent.h"
#include "base/text.h"
#include "cli/ssh/config/library_failure.h"

namespace tfdist::ssh {
namespace {

// Of a numeric address alone, with its zone ("fe80::1%eth0"): for those getaddrinfo(3) asks nobody, neither a server nor
// a file. Empty for a name.
std::vector<Address> Numeric(const std::string& text, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  if (getaddrinfo(text.c_str(), std::to_string(port).c_str(), &hints, &list) != 0) return {};
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, freeaddrinfo);
  std::vector<Address> addresses;
  for (const addrinfo* one = list; one != nullptr; one = one->ai_next) {
    addresses.emplace_back(one->ai_addr, one->ai_addrlen);
  }
  return addresses;
}

// The first words of what `getent ahosts` prints, each once: it has a line for each type of socket.
std::vector<Address> AddressesIn(std::string_view answer, int port) {
  std::set<std::string> seen;
  std::vector<Address> addresses;
  while (!answer.empty()) {
    std::string_view line = TakeUpTo('\n', answer);
    const std::string word(line.substr(0, line.find_first_of(" \t")));
    if (!seen.insert(word).second) continue;
    for (const Address& address : Numeric(word, port)) addresses.push_back(address);
  }
  return addresses;
}

[[noreturn]] void FailToResolve(const std::string& host_name, const std::string& why,
                                const std::string& remedy) {
  throw Unreachable(Phase::kResolve, fmt::format("{}: {}", host_name, why), remedy);
}

}  // namespace

Address::Address(const sockaddr* address, socklen_t size) : size_(size) {
  std::memcpy(&storage_, address, size);
}

std::string Address::Text() const {
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  getnameinfo(get(), size_, host.data(), host.size(), port.data(), port.size(),
              NI_NUMERICHOST | NI_NUMERICSERV);
  return fmt::format("{} port {}", host.data(), port.data());
}

std::string PeerAddress(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  std::array<char, NI_MAXHOST> host{};
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
      getnameinfo(reinterpret_cast<sockaddr*>(&address), size, host.data(), host.size(), nullptr, 0,
                  NI_NUMERICHOST) != 0) {
    return "";
  }
  return host.data();
}

std::vector<Address> Resolve(const std::string& host_name, int port, TimePoint deadline) {
  std::vector<Address> addresses = Numeric(host_name, port);
  if (!addresses.empty()) return addresses;
  if (host_name.empty() || host_name.front() == '-') {  // it becomes an argument
    FailToResolve(host_name, "this is no name of a host", "check the name");
  }
  const auto answer = AskGetent("ahosts", host_name, deadline);
  if (!answer)
    throw LibraryFailure(Phase::kResolve,
                         "getent, which asks the DNS, cannot be run on this machine");
  if (answer->exit_code == 0) addresses = AddressesIn(answer->output, port);
  if (addresses.empty()) {
    FailToResolve(
        host_name, WhyGetentHasNone(*answer),
        fmt::format(
            "check the name and this machine's DNS (getent ahosts {}), or give the host's address",
            host_name));
  }
  return addresses;
}

}  // namespace tfdist::ssh
