#include "agent/attach/displaced.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <vector>

#include "agent/census/kill.h"
#include "agent/census/process_table.h"
#include "agent/slot/folder_now.h"
#include "agent/slot/slot_census.h"
#include "base/clock.h"

namespace tfdist::agent {
namespace {

namespace fs = std::filesystem;

// A keeper that is asked to end gives its tasks 30 s, and what it then kills 10 s more.
constexpr std::chrono::seconds kKeeperLimit{45};
constexpr int kPauseMs = 50;

std::vector<ProcessInfo> Called(std::string_view name, const SlotFolder& folder) {
  std::vector<ProcessInfo> processes = FindSlotProcesses(folder, {getpid()});
  std::erase_if(processes, [&](const ProcessInfo& process) {
    return process.comm != name || !IsOfThisAccount(process.id.pid);
  });
  return processes;
}

}  // namespace

SlotFolder DisplacedFolder() {
  const auto [slot, is_removed] = PathOfWorkingFolder();
  std::error_code error;
  const bool was_moved = fs::equivalent(slot, "/proc/self/cwd", error);
  if (is_removed || was_moved) return SlotFolder(slot);
  // The last names are those that its processes are known by.
  return SlotFolder(fs::path("/proc/self/cwd/../..") / slot.parent_path().filename() /
                    slot.filename());
}

void EndWithItsKeeper(const SlotFolder& folder, bool force) {
  for (const ProcessInfo& agent : Called("tfdist-agent", folder)) {
    SignalProcess(agent.id, SIGSTOP);
  }
  if (force) return;
  const std::vector<ProcessInfo> keepers = Called("tfdist-keeper", folder);
  for (const ProcessInfo& keeper : keepers) {
    SignalProcess(keeper.id, SIGTERM);
    SignalProcess(keeper.id, SIGCONT);
  }
  const TimePoint deadline = SystemClock().Now() + kKeeperLimit;
  const auto runs = [](const ProcessInfo& keeper) { return IsRunning(keeper.id); };
  while (std::ranges::any_of(keepers, runs) && SystemClock().Now() < deadline) {
    poll(nullptr, 0, kPauseMs);  // it is not our child
  }
}

}  // namespace tfdist::agent
