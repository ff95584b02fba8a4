#include "cli/ssh/config/logins.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <random>

#include "cli/ssh/config/host_configs.h"
#include "cli/ssh/config/phase_deadline.h"

namespace tfdist::ssh {
namespace {

using namespace std::chrono_literals;

// Each costs a connection until it is through. On a link of 50 ms it waits for half a second.
constexpr size_t kLoginsAtATime = 128;
// The same where each is a process of some megabytes, which does its own arithmetic.
constexpr size_t kProgramsAtATime = 32;
// Where ssh has to be asked for each host: a process.
constexpr size_t kConfigsAtATime = 16;
// OpenSSH's MaxStartups begins to drop connections at 10 that have not logged in.
constexpr size_t kLoginsOfAnSshd = 8;
constexpr auto kFirstPause = 100ms;
constexpr auto kLongestPause = 2000ms;

// Of the process: however many threads there are, and whoever calls.
Places& AllPlaces() {
  static Places places;
  return places;
}

}  // namespace

HostConfig ConfigOf(const Target& target, TimePoint& deadline) {
  static HostConfigs configs;
  const auto place = AllPlaces().Take("configuration", kConfigsAtATime, deadline);
  const TimePoint begin = SystemClock().Now();
  HostConfig config = configs.Of(target, begin + target.limits.config);
  deadline += SystemClock().Now() - begin;
  return config;
}

Target WithTimeToConnect(Target target, const HostConfig& host, TimePoint& deadline) {
  Limits& limits = target.limits;
  const std::chrono::milliseconds usual = limits.tcp + kUnknownWay;
  const auto left = std::chrono::round<std::chrono::milliseconds>(deadline - SystemClock().Now());
  // Whoever has little time only looks how a host is: one that is slow to say its version is not waited for longer.
  const bool is_patient = left >= usual && host.connect_timeout == 0s;
  if (!is_patient) limits.banner = std::min<std::chrono::milliseconds>(limits.banner, kUnknownWay);
  limits.banner = std::max<std::chrono::milliseconds>(limits.banner, host.connect_timeout);
  // A host that does not take the connection costs no more time than there was.
  const auto unseen = target.program == Program::kOpenssh ? kUnknownWay : 0s;
  limits.tcp = std::max<std::chrono::milliseconds>(
      host.connect_timeout, std::clamp<std::chrono::milliseconds>(left - unseen, 0ms, limits.tcp));
  deadline += std::max(0ms, limits.tcp + limits.banner - usual);
  return target;
}

LoginPlaces TakeLoginPlaces(const HostConfig& host, const Target& target, TimePoint& deadline) {
  Places& places = AllPlaces();
  // The machine that a ProxyCommand goes through has a MaxStartups, too. To a jump host there is one connection.
  const bool is_by_command = !host.gateway.empty() && host.proxy_jump.empty();
  // Always in this order.
  return {places.Take("", target.program == Program::kOpenssh ? kProgramsAtATime : kLoginsAtATime,
                      deadline),
          places.Take("via " + host.gateway, is_by_command ? kLoginsOfAnSshd : SIZE_MAX, deadline),
          places.Take(fmt::format("to {} {} {}", host.host_name, host.port, host.gateway),
                      kLoginsOfAnSshd, deadline)};
}

std::chrono::milliseconds PauseAfter(int tries) {
  thread_local std::minstd_rand random{std::random_device{}()};
  const auto most =
      std::min<std::chrono::milliseconds>(kFirstPause * (1 << std::min(tries, 8)), kLongestPause);
  std::uniform_int_distribution<int64_t> milliseconds(most.count() / 2, most.count());
  return std::chrono::milliseconds(milliseconds(random));
}

}  // namespace tfdist::ssh
