#include "agent/attach/agent_search.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <string_view>
#include <thread>
#include <vector>

#include "agent/census/kill.h"
#include "agent/census/process_table.h"
#include "agent/session/unix_listener.h"
#include "agent/slot/slot_census.h"
#include "base/clock.h"

namespace tfdist::agent {
namespace {

// A keeper starts a killed agent again, after a growing pause. The command waits for 30 s.
constexpr std::chrono::seconds kRestartLimit{10};
constexpr std::chrono::milliseconds kPause{20};
constexpr std::chrono::seconds kHelloLimit{10};
// Between two looks at the state of an agent that has not said a word.
constexpr int kLookMs = 100;
// As they call themselves (prctl(2), PR_SET_NAME).
constexpr std::string_view kKeeperName = "tfdist-keeper";
constexpr std::string_view kAgentName = "tfdist-agent";
constexpr std::string_view kHolderName = "tfdist-holder";

bool HasName(const ProcessInfo& process, std::string_view name) {
  return process.comm == name &&
         IsOfThisAccount(process.id.pid);  // a task may have changed to another account
}

// Whether it is a keeper or an agent. Right after its exec a process has not named itself yet; and
// the executable of an agent that has can be seen by root alone, as it holds keys.
bool CanServe(const ProcessInfo& process, const SlotFolder& folder) {
  if (process.comm == kKeeperName || process.comm == kAgentName) {
    return IsOfThisAccount(process.id.pid);
  }
  return ExecutableOf(process.id.pid) == folder.executable() && process.comm != kHolderName;
}

bool KeeperRuns(const SlotFolder& folder) {
  const auto processes = FindSlotProcesses(folder, {getpid()});
  return std::ranges::any_of(processes,
                             [&](const ProcessInfo& process) { return CanServe(process, folder); });
}

bool IsStopped(const ProcessInfo& process) { return process.state == 'T' || process.state == 't'; }

std::string WhatItDoes(const ProcessInfo& agent) {
  const pid_t pid = agent.id.pid;
  if (agent.state == 'T')
    return fmt::format("is stopped (state T): kill -CONT {} there lets it go on", pid);
  if (agent.state == 't')
    return fmt::format("is stopped by a debugger (state t): its process is {}", pid);
  return fmt::format("has not answered for {} s (state {}): its process is {}", kHelloLimit.count(),
                     agent.state, pid);
}

// Who listens at the other end of the connection (unix(7), SO_PEERCRED).
std::optional<ProcessInfo> PeerOf(const UniqueFd& agent) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(agent.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return std::nullopt;
  return ReadProcess(peer.pid);
}

std::optional<ProcessInfo> FindAgentProcess(const SlotFolder& folder) {
  const auto processes = FindSlotProcesses(folder, {getpid()});
  const auto agent = std::ranges::find_if(
      processes, [](const ProcessInfo& process) { return HasName(process, kAgentName); });
  return agent == processes.end() ? std::nullopt : std::optional(*agent);
}

// Neither: it has ended before it said a word, as one does that is killed or becomes the keeper.
FoundAgent AwaitItsWord(UniqueFd agent) {
  const TimePoint deadline = SystemClock().Now() + kHelloLimit;
  while (true) {
    pollfd waiting{agent.get(), POLLIN, 0};
    char byte = 0;
    if (poll(&waiting, 1, kLookMs) > 0) {
      if (recv(agent.get(), &byte, sizeof byte, MSG_PEEK) <= 0) return {};
      return {std::move(agent), std::nullopt};
    }
    const auto process = PeerOf(agent);
    const bool is_late = SystemClock().Now() >= deadline;
    if (process && !process->ended() && (is_late || IsStopped(*process)))
      return {std::nullopt, WhatItDoes(*process)};
    if (is_late) return {};
  }
}

FoundAgent Connect(const SlotFolder& folder) {
  try {
    auto agent = ConnectToAgent(folder.path());
    return agent ? AwaitItsWord(std::move(*agent)) : FoundAgent();
  } catch (const AgentTakesNoConnection&) {
    const auto process = FindAgentProcess(folder);
    if (!process) return {};
    return {std::nullopt, WhatItDoes(*process)};
  }
}

}  // namespace

// An agent that is being restarted does not answer either: only where no keeper runs is the job
// over.
FoundAgent FindAgent(const SlotFolder& folder) {
  const TimePoint deadline = SystemClock().Now() + kRestartLimit;
  while (true) {
    FoundAgent found = Connect(folder);
    if (found.agent || found.silent) return found;
    if (!KeeperRuns(folder) || SystemClock().Now() > deadline) return {};
    std::this_thread::sleep_for(kPause);
  }
}

FoundAgent ResumeAgent(const SlotFolder& folder) {
  for (const ProcessInfo& process : FindSlotProcesses(folder, {getpid()})) {
    const bool is_own = HasName(process, kKeeperName) || HasName(process, kAgentName) ||
                        HasName(process, kHolderName);
    if (is_own && process.state == 'T') SignalProcess(process.id, SIGCONT);
  }
  return FindAgent(folder);
}

}  // namespace tfdist::agent
