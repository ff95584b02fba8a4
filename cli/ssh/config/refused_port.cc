#include "cli/ssh/config/refused_port.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "cli/ssh/config/resolve.h"

namespace tfdist::ssh {
namespace {

using namespace std::chrono_literals;

// Firewalls that count let five through at least.
constexpr int kConnectionsOfACountingFirewall = 5;
constexpr int64_t kSecondsCounted = 60;
// A bucket fills again within seconds. A window of 30 s counts refused tries, too: in the last one's there is but one.
constexpr std::array kPauses = {5000ms, 10'000ms, 21'000ms};
constexpr auto kPauseAfterSilence = 25'000ms;
constexpr int kProbeMilliseconds = 1000;
constexpr size_t kMostBytes = 256 * 1024;

int64_t NowInSeconds() { return WallClockNanoseconds() / 1'000'000'000; }

// "1767225600 gpu7 22": a connection of that second.
std::string LineOf(int64_t second, const HostConfig& host) {
  return fmt::format("{} {} {}\n", second, host.host_name, host.port);
}

UniqueFd OpenToAppend(const std::filesystem::path& path) {
  std::error_code none;  // it may not be there yet
  const auto size = std::filesystem::file_size(path, none);
  const int begin = !none && size > kMostBytes ? O_TRUNC : 0;
  return UniqueFd(
      open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC | begin, 0600));
}

void Append(const std::filesystem::path& path, const std::string& line) {
  UniqueFd file = OpenToAppend(path);
  if (!file.valid()) {
    MakePrivateFolder(path.parent_path());
    file = OpenToAppend(path);
  }
  WriteAll(file.get(), line, path.string());
}

int CountConnections(std::string_view lines, const HostConfig& host) {
  const int64_t now = NowInSeconds();
  const std::string end = LineOf(0, host).substr(1);
  int count = 0;
  while (!lines.empty()) {
    const std::string line = std::string(TakeUpTo('\n', lines)) + '\n';
    if (line.ends_with(end) && std::atoll(line.c_str()) >= now - kSecondsCounted) ++count;
  }
  return count;
}

// Since Linux 5.8 a TCP socket's error queue has the ICMP errors that it got.
bool KernelTellsIcmp() {
  utsname system{};
  int major = 0;
  int minor = 0;
  return uname(&system) == 0 && std::sscanf(system.release, "%d.%d", &major, &minor) == 2 &&
         std::pair(major, minor) >= std::pair(5, 8);
}

// A kernel on whose port nobody listens answers with a reset, a firewall that counts (ufw limit) with an ICMP error.
bool IsReset(const Address& address) {
  const UniqueFd fd(socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  const bool is_v6 = address.family() == AF_INET6;
  if (!fd.valid() || setsockopt(fd.get(), is_v6 ? SOL_IPV6 : SOL_IP,
                                is_v6 ? IPV6_RECVERR : IP_RECVERR, &on, sizeof on) != 0) {
    return false;
  }
  if (connect(fd.get(), address.get(), address.size()) != 0 && errno == EINPROGRESS) {
    pollfd polled{fd.get(), POLLOUT, 0};
    poll(&polled, 1, kProbeMilliseconds);
  }
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  char byte = 0;
  return error == ECONNREFUSED && recv(fd.get(), &byte, 1, MSG_ERRQUEUE) < 0;
}

// Nobody listens there, on any of its addresses. False where that cannot be told.
bool NobodyListens(const HostConfig& host, TimePoint deadline) {
  if (!KernelTellsIcmp()) return false;
  try {
    return std::ranges::all_of(Resolve(host.host_name, host.port, deadline), IsReset);
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

void RememberConnection(const Target& target, const HostConfig& host) {
  if (target.connections.empty() || !host.gateway.empty()) return;
  try {
    Append(target.connections, LineOf(NowInSeconds(), host));
  } catch (const Error&) {  // then a refused port is taken for one where nobody listens
  }
}

bool RefusedPort::WaitAfterRefusal(TimePoint& deadline, TimePoint& give_up) {
  if (waits_ == kPauses.size()) return false;
  const bool asks = waits_ == 0 && !target_.waits_for_firewalls && MayBeCounted();
  return !(asks && NobodyListens(host_, deadline)) && Wait(kPauses.at(waits_), deadline, give_up);
}

bool RefusedPort::WaitAfterSilence(TimePoint& deadline, TimePoint& give_up) {
  if (waits_ > 0 || !target_.waits_for_firewalls || !Wait(kPauseAfterSilence, deadline, give_up))
    return false;
  deadline += target_.limits.tcp;  // of the try in vain
  return true;
}

bool RefusedPort::Wait(std::chrono::milliseconds pause, TimePoint& deadline, TimePoint& give_up) {
  if (waits_ == 0 && !MayBeCounted()) return false;
  if (target_.is_off && target_.is_off()) return false;
  if (waits_ == 0 && target_.on_note) {
    target_.on_note(
        "it takes no connection after several in a minute, as a firewall does that counts them "
        "(ufw limit); trying again for half a minute");
  }
  ++waits_;
  poll(nullptr, 0, static_cast<int>(pause.count()));
  deadline += pause;
  give_up += pause;
  return true;
}

bool RefusedPort::MayBeCounted() const {
  if (target_.connections.empty() || !host_.gateway.empty()) return false;
  try {
    const auto lines = ReadOwnFileIfExists(target_.connections, 2 * kMostBytes);
    return CountConnections(lines.value_or(""), host_) >= kConnectionsOfACountingFirewall;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace tfdist::ssh
