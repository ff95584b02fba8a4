#include "agent/start/launch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>

#include "agent/census/census.h"
#include "agent/keeper/keeper.h"
#include "agent/session/unix_listener.h"
#include "agent/slot/slot_census.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "base/file.h"
#include "base/process_limits.h"

namespace tfdist::agent {
namespace {

constexpr std::chrono::milliseconds kPauseBetweenProbes{5};
constexpr size_t kMaxLogBytes = 16 * 1024 * 1024;
constexpr size_t kShownLogBytes = 600;

// In the child: becomes the keeper, or tells through the pipe, which an exec closes, why not.
[[noreturn]] void BecomeKeeper(const SlotFolder& folder, const SlotInfo& info,
                               const HostSettings& host, int listener_fd, int name_lock_fd,
                               Begins begins, int complaints_fd) {
  try {
    setsid();
    // By it a census finds keeper, agent and holders as well.
    // NOLINTNEXTLINE(concurrency-mt-unsafe): one thread, after a fork
    setenv(kCookieName.data(), CookieValue(info.job, info.slot).c_str(), 1);
    ExecKeeper(folder.path(), host, listener_fd, name_lock_fd, begins);
  } catch (const Error& e) {
    (void)!write(complaints_fd, e.cause().data(), e.cause().size());
  }
  _exit(1);
}

std::string ReadAll(int fd) {
  std::string text;
  std::array<char, 512> buffer{};
  while (true) {
    const ssize_t got = read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(buffer.data(), static_cast<size_t>(got));
  }
}

[[noreturn]] void Fail(const SlotFolder& folder, const std::string& why) {
  std::string log = ReadOwnFileIfExists(folder.log(), kMaxLogBytes).value_or("");
  if (log.size() > kShownLogBytes) log = log.substr(log.size() - kShownLogBytes);
  EndFoundProcesses(folder, {}, SystemClock().Now() + std::chrono::seconds(5));
  throw Error(Phase::kStart, log.empty() ? why : fmt::format("{}; its log ends: {}", why, log));
}

UniqueFd WaitForAgent(const SlotFolder& folder, pid_t keeper, TimePoint deadline) {
  while (true) {
    if (auto fd = ConnectToAgent(folder.path())) return std::move(*fd);
    if (waitpid(keeper, nullptr, WNOHANG) == keeper) Fail(folder, "the keeper has ended");
    if (SystemClock().Now() > deadline) Fail(folder, "the agent does not answer");
    std::this_thread::sleep_for(kPauseBetweenProbes);
  }
}

}  // namespace

UniqueFd LaunchKeeper(const SlotFolder& folder, const SlotInfo& info, const HostSettings& host,
                      int listener_fd, int name_lock_fd, std::chrono::milliseconds limit,
                      Begins begins) {
  const TimePoint deadline = SystemClock().Now() + limit;
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) throw Error(Phase::kStart, WithErrno("pipe", errno));
  const UniqueFd complaints(ends[0]);
  UniqueFd complain(ends[1]);
  const pid_t keeper = fork();
  if (keeper < 0) {
    throw Error(Phase::kStart, WithProcessLimits(WithErrno("cannot start a process", errno)),
                std::string(kProcessLimitRemedy));
  }
  if (keeper == 0) {
    BecomeKeeper(folder, info, host, listener_fd, name_lock_fd, begins, complain.get());
  }
  FailPoint("keeper forked");
  complain.Reset();
  const std::string why = ReadAll(complaints.get());
  if (!why.empty()) {
    throw Error(Phase::kStart, why,
                "is the file system mounted noexec? `[ssh] remote_dir` names another place");
  }
  return WaitForAgent(folder, keeper, deadline);
}

}  // namespace tfdist::agent
