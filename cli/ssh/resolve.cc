#include "cli/ssh/resolve.h"

#include <fmt/format.h>
#include <netdb.h>

#include <array>
#include <cstring>
#include <future>
#include <memory>
#include <optional>
#include <thread>

#include "base/error.h"
#include "base/failures.h"

namespace tfdist::ssh {
namespace {

struct Answer {
  int error = 0;  // EAI_...
  std::vector<Address> addresses;
};

Answer Ask(const std::string& host_name, int port, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  Answer answer;
  answer.error = getaddrinfo(host_name.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (answer.error != 0) return answer;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, freeaddrinfo);
  for (const addrinfo* one = list; one != nullptr; one = one->ai_next) {
    answer.addresses.emplace_back(one->ai_addr, one->ai_addrlen);
  }
  return answer;
}

// getaddrinfo(3) has no deadline: a thread waits for it, and is left behind when it takes too long.
std::optional<Answer> AskInTime(const std::string& host_name, int port, TimePoint deadline) {
  std::promise<Answer> promise;
  std::future<Answer> future = promise.get_future();
  std::thread([promise = std::move(promise), host_name, port]() mutable {
    promise.set_value(Ask(host_name, port, 0));
  }).detach();
  if (future.wait_until(deadline) != std::future_status::ready) return std::nullopt;
  return future.get();
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

std::vector<Address> Resolve(const std::string& host_name, int port, TimePoint deadline) {
  Answer numeric = Ask(host_name, port, AI_NUMERICHOST);
  if (numeric.error == 0) return std::move(numeric.addresses);
  std::optional<Answer> answer = AskInTime(host_name, port, deadline);
  if (!answer)
    throw Unreachable(Phase::kResolve, fmt::format("no answer for {} in time", host_name));
  if (answer->error != 0) {
    throw Unreachable(Phase::kResolve,
                      fmt::format("{}: {}", host_name, gai_strerror(answer->error)),
                      "check the name, or give the host's address");
  }
  return std::move(answer->addresses);
}

}  // namespace tfdist::ssh
