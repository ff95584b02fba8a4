#include "agent/attach/attach_main.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <optional>
#include <string_view>
#include <thread>

#include "agent/attach/bridge.h"
#include "agent/attach/folder_server.h"
#include "agent/census/census.h"
#include "agent/server/unix_listener.h"
#include "agent/slot/slot_folder.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/unique_fd.h"

namespace tfdist::agent {
namespace {

constexpr std::chrono::seconds kIdleLimit{30};
// A keeper starts a killed agent again, after a pause that grows.
constexpr std::chrono::seconds kRestartLimit{5};
constexpr std::chrono::milliseconds kPause{20};
// As they call themselves (prctl(2), PR_SET_NAME); an agent can be about to become the keeper.
constexpr std::string_view kKeeperName = "tfdist-keeper";
constexpr std::string_view kAgentName = "tfdist-agent";

bool KeeperRuns(const SlotInfo& info) {
  const auto processes = FindProcesses(CookieValue(info.job, info.slot), {getpid()});
  return std::any_of(processes.begin(), processes.end(), [](const ProcessInfo& process) {
    return process.comm == kKeeperName || process.comm == kAgentName;
  });
}

// An agent that is being restarted does not answer either: only where no keeper runs is the job over.
std::optional<UniqueFd> FindAgent(const SlotFolder& folder, const SlotInfo& info) {
  const TimePoint deadline = std::chrono::steady_clock::now() + kRestartLimit;
  while (true) {
    if (auto agent = ConnectToAgent(folder.path())) return agent;
    if (!KeeperRuns(info) || std::chrono::steady_clock::now() > deadline) return std::nullopt;
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace

int AttachMain() {
  SetLogName("attach");
  umask(077);
  std::signal(SIGPIPE, SIG_IGN);
  const SlotFolder folder(std::filesystem::read_symlink("/proc/self/exe").parent_path());
  const SlotInfo info = ReadSlotInfo(folder);
  if (const auto agent = FindAgent(folder, info)) {
    Bridge(agent->get(), kIdleLimit);
  } else {
    FolderServer(folder, info).Run(kIdleLimit);
  }
  return 0;
}

}  // namespace tfdist::agent
