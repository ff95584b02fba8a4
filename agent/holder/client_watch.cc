#include "agent/holder/client_watch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/census/process_table.h"
#include "agent/holder/exec_search.h"
#include "agent/process/run_folder.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "job/daemon_clients.h"

namespace tfdist::agent {
namespace {

using std::chrono::milliseconds;

// A start is told as its file is opened, a moment before the process has that program's arguments. A short client runs for
// 20 ms or so.
constexpr std::array<milliseconds, 4> kAfterAStart{milliseconds(2), milliseconds(8),
                                                   milliseconds(40), milliseconds(200)};
constexpr milliseconds kFirstRest{1000};
constexpr milliseconds kLastRest{60'000};
// Looks take a fiftieth of the time at most: others' programs open those files, too.
constexpr int kShare = 50;
constexpr milliseconds kLongestRest{10'000};
constexpr size_t kLongestName = 15;  // of proc(5), comm
constexpr size_t kMostNoted = 10'000;
constexpr size_t kMostWords = 50;

// A read of cmdline waits for a process that is stuck in a fault of memory, so only clients are asked.
bool IsNamedAsOne(const ProcessInfo& process) {
  return std::ranges::any_of(protocol::DaemonClients(), [&](const protocol::DaemonClient& client) {
    return process.comm == client.name.substr(0, kLongestName);
  });
}

std::optional<protocol::DaemonCall> CallOf(const ProcessInfo& process) {
  if (process.ended() || !IsNamedAsOne(process)) return std::nullopt;
  std::array<char, 4096> text{};
  const UniqueFd fd(
      open(fmt::format("/proc/{}/cmdline", process.id.pid).c_str(), O_RDONLY | O_CLOEXEC));
  const ssize_t size = fd.get() >= 0 ? read(fd.get(), text.data(), text.size()) : 0;
  std::vector<std::string_view> arguments;
  for (std::string_view rest(text.data(), static_cast<size_t>(std::max<ssize_t>(size, 0)));
       !rest.empty();) {
    arguments.push_back(TakeUpTo('\0', rest));
  }
  // A link of that name leads to it on some systems.
  const std::filesystem::path program = ExecutableOf(process.id.pid).filename();
  if (!arguments.empty() && program == "podman") arguments[0] = "podman";
  return protocol::DaemonCallOf(arguments);
}

UniqueFd WatchClients(const std::vector<std::string>& env) {
  UniqueFd watch(inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  if (watch.get() < 0)
    return watch;  // the account has too many: what runs for some time is seen all the same
  for (const protocol::DaemonClient& client : protocol::DaemonClients()) {
    if (client.work_ends_with_it) continue;  // counts at the end only, and ssh starts all the time
    for (const std::string& path : Candidates(std::string(client.name), env)) {
      if (path.starts_with('/')) inotify_add_watch(watch.get(), path.c_str(), IN_OPEN);
    }
  }
  return watch;
}

}  // namespace

ClientWatch::ClientWatch(const RunSpec& spec, std::filesystem::path run_folder)
    : run_folder_(std::move(run_folder)),
      opened_(WatchClients(spec.env)),
      next_look_(clock_.Now() + kFirstRest),
      pause_(kFirstRest) {}

void ClientWatch::Take() {
  std::array<char, 4096> events{};
  while (read(opened_.get(), events.data(), events.size()) > 0) {
  }
  if (looks_due_ == 0) cost_ = {};
  looks_due_ = kAfterAStart.size();
  next_look_ = std::max(rests_until_, clock_.Now() + kAfterAStart.front());
}

void ClientWatch::Look(bool at_end) try {
  const TimePoint begun = clock_.Now();
  for (const ProcessInfo& process : Descendants(getpid(), ReadProcessTable())) {
    const auto call = CallOf(process);
    if (!call || (call->client->work_ends_with_it && !at_end)) continue;
    // A child of the client itself (srun) is no second call.
    const bool is_child = noted_.contains({process.parent, call->words});
    if (noted_.size() >= kMostNoted || !noted_.emplace(process.id.pid, call->words).second)
      continue;
    if (!is_child) Note(call->words, process.id.pid);
  }
  Plan(begun);
} catch (const Error& error) {
  Log("{}, ignoring", error.what());
  Plan(clock_.Now());
}

void ClientWatch::Plan(TimePoint begun) {
  const TimePoint now = clock_.Now();
  cost_ += now - begun;
  if (looks_due_ > 0 && --looks_due_ > 0) {
    next_look_ = now + kAfterAStart.at(kAfterAStart.size() - looks_due_);
    return;
  }
  rests_until_ = now + std::min<TimePoint::duration>(cost_ * kShare, kLongestRest);
  next_look_ = std::max(rests_until_, now + pause_);
  pause_ = std::min(2 * pause_, kLastRest);
  cost_ = {};
}

void ClientWatch::Note(const std::string& words, int pid) {
  if (seen_.size() >= kMostWords && !seen_.contains(words)) return;
  Seen& seen = seen_[words];
  seen.first_pid == 0 ? seen.first_pid = pid : ++seen.more;
  std::vector<std::string> lines;
  for (const auto& [call, those] : seen_) {
    lines.push_back(those.more == 0 ? fmt::format("{} (pid {})", call, those.first_pid)
                                    : fmt::format("{} (pid {} and {} more)", call, those.first_pid,
                                                  those.more));
  }
  WriteRunClients(run_folder_, lines);
}

}  // namespace tfdist::agent
