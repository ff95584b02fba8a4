#include "agent/attach/attach_main.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "agent/attach/folder_server.h"
#include "agent/census/process_table.h"
#include "agent/process/handover.h"
#include "agent/session/unix_listener.h"
#include "agent/slot/slot_census.h"
#include "agent/slot/slot_folder.h"
#include "agent/stdio/bridge.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/unique_fd.h"

namespace tfdist::agent {
namespace {

constexpr std::chrono::seconds kIdleLimit{30};
// A keeper starts a killed agent again, after a growing pause. The command waits for 30 s.
constexpr std::chrono::seconds kRestartLimit{10};
constexpr std::chrono::milliseconds kPause{20};
constexpr std::chrono::milliseconds kHelloLimit{10'000};
// As they call themselves (prctl(2), PR_SET_NAME).
constexpr std::string_view kKeeperName = "tfdist-keeper";
constexpr std::string_view kAgentName = "tfdist-agent";
constexpr std::string_view kHolderName = "tfdist-holder";

// Whether it is a keeper or an agent. Right after its exec a process has not named itself yet; and
// the executable of an agent that has can be seen by root alone, as it holds keys.
bool CanServe(const ProcessInfo& process, const SlotFolder& folder) {
  if (process.comm == kKeeperName || process.comm == kAgentName) {
    return IsOfThisAccount(process.id.pid);  // a task may have changed to another account
  }
  return ExecutableOf(process.id.pid) == folder.executable() && process.comm != kHolderName;
}

bool KeeperRuns(const SlotFolder& folder) {
  const auto processes = FindSlotProcesses(folder, {getpid()});
  return std::any_of(processes.begin(), processes.end(),
                     [&](const ProcessInfo& process) { return CanServe(process, folder); });
}

// False: it has ended before it said a word, as one does that is killed or becomes the keeper. One
// that is frozen is left to the CLI's patience.
bool Greets(const UniqueFd& agent) {
  pollfd waiting{agent.get(), POLLIN, 0};
  char byte = 0;
  return poll(&waiting, 1, static_cast<int>(kHelloLimit.count())) == 0 ||
         recv(agent.get(), &byte, sizeof byte, MSG_PEEK) > 0;
}

// An agent that is being restarted does not answer either: only where no keeper runs is the job
// over.
std::optional<UniqueFd> FindAgent(const SlotFolder& folder) {
  const TimePoint deadline = SystemClock().Now() + kRestartLimit;
  while (true) {
    auto agent = ConnectToAgent(folder.path());
    if (agent && Greets(*agent)) return agent;
    if (!KeeperRuns(folder) || SystemClock().Now() > deadline) return std::nullopt;
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace

int AttachMain() {
  SetLogName("attach");
  const HostSettings host = HostSettings::Capture();
  HostSettings::SetOurs();
  std::signal(SIGPIPE, SIG_IGN);
  const SlotFolder folder(std::filesystem::read_symlink("/proc/self/exe").parent_path());
  const SlotInfo info = ReadOrInferSlotInfo(folder);
  if (const auto agent = FindAgent(folder)) {
    Bridge(agent->get(), kIdleLimit);
  } else {
    FolderServer(folder, info, host).Run(kIdleLimit);
  }
  return 0;
}

}  // namespace tfdist::agent
