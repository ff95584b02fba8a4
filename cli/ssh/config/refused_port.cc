#include "cli/ssh/config/refused_port.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "base/unique_fd.h"

namespace tfdist::ssh {
namespace {

using namespace std::chrono_literals;

// Firewalls that count let five through at least.
constexpr int kConnectionsOfACountingFirewall = 5;
constexpr int64_t kSecondsCounted = 60;
// A bucket fills again within seconds. A window of 30 s counts refused tries, too: in the last one's there is but one.
constexpr std::array kPauses = {5000ms, 10'000ms, 21'000ms};
constexpr auto kPauseAfterSilence = 25'000ms;
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

}  // namespace

void RememberConnection(const Target& target, const HostConfig& host) {
  if (target.connections.empty() || !host.gateway.empty()) return;
  try {
    Append(target.connections, LineOf(NowInSeconds(), host));
  } catch (const Error&) {  // then a refused port is taken for one where nobody listens
  }
}

bool RefusedPort::WaitAfterRefusal(TimePoint& deadline, TimePoint& give_up) {
  return waits_ < kPauses.size() && Wait(kPauses.at(waits_), deadline, give_up);
}

bool RefusedPort::WaitAfterSilence(TimePoint& deadline, TimePoint& give_up) {
  if (waits_ > 0 || !target_.waits_in_silence || !Wait(kPauseAfterSilence, deadline, give_up))
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
