#include "agent/start/launch_again.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "agent/census/process_table.h"
#include "agent/control/control_listener.h"
#include "agent/slot/slot_census.h"
#include "agent/start/launch.h"
#include "agent/start/name_lock.h"
#include "base/clock.h"
#include "base/error.h"
#include "wire/refusal.h"

namespace tfdist::agent {
namespace {

constexpr std::chrono::seconds kMakeWayLimit{10};
constexpr std::chrono::seconds kLaunchAgainLimit{10};

// For an agent that begins with nothing running. Holders whose keeper was killed end their tasks gracefully.
void MakeWay(const SlotFolder& folder, const SlotInfo& info) {
  const auto processes = FindSlotProcesses(folder, {getpid()});
  if (std::ranges::find(processes, "tfdist-holder", &ProcessInfo::comm) != processes.end()) {
    throw protocol::Refusal(protocol::RefusalKind::kWrongState, Phase::kStart,
                            "its last tasks are just ending", "try again in a moment");
  }
  const auto census =
      EndSlotProcesses(folder, info, {getpid()}, SystemClock().Now() + kMakeWayLimit);
  if (census.left.empty()) return;
  throw Error(Phase::kStart, fmt::format("still there: {}", fmt::join(census.left, ", ")));
}

}  // namespace

void LaunchAgain(const SlotFolder& folder, const SlotInfo& info, const HostSettings& host) {
  MakeWay(folder, info);
  UniqueFd name_lock;
  UniqueFd listener;
  if (info.slot == 0) {
    name_lock = TakeNameLock(info, folder.path());
    listener = ListenForAgents(info.address, info.port);
  }
  LaunchKeeper(folder, info, host, listener.get(), name_lock.get(), kLaunchAgainLimit,
               Begins::kAgain);
}

}  // namespace tfdist::agent
