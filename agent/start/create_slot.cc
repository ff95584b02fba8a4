#include "agent/start/create_slot.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>

#include "agent/control/control_listener.h"
#include "agent/control/curve_keys.h"
#include "agent/control/tcp_address.h"
#include "agent/files/disk_room.h"
#include "agent/files/file_store.h"
#include "agent/slot/slot_folder.h"
#include "agent/start/launch.h"
#include "agent/start/name_lock.h"
#include "agent/start/other_jobs.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/process_limits.h"
#include "job/layout.h"
#include "wire/room.h"

namespace tfdist::agent {
namespace {

constexpr size_t kMaxNameBytes = 48;
constexpr int kMaxSlot = 100'000;
constexpr std::chrono::seconds kLaunchLimit{10};
// A keeper, and an agent with its threads: two for files and searches, two of libzmq, which aborts where it cannot
// have them.
constexpr int kThreadsOfASlot = 6;

void Check(const protocol::Create& create) {
  const bool fine =
      layout::IsPlainName(create.job, layout::kMostJobBytes) &&
      layout::IsPlainName(create.name, kMaxNameBytes) && create.slot >= 0 &&
      create.slot <= kMaxSlot && create.started_by.size() <= protocol::kMostWhoBytes &&
      std::ranges::none_of(create.started_by, [](unsigned char c) { return c <= ' '; });
  if (!fine) {
    throw Error(Phase::kStart, "the job's id, its name, its user or the slot is malformed");
  }
}

SlotInfo MakeInfo(const protocol::Create& create, const AgentFile& executable) {
  SlotInfo info;
  info.base = BaseOf(executable.path).string();
  info.job = create.job;
  info.name = create.name;
  info.plan_sha256 = create.plan_sha256;
  info.started_by = create.started_by;
  info.slot = create.slot;
  info.address = create.address;
  info.uncommitted_limit_ms = create.uncommitted_limit_ms;
  info.orphan_timeout_ms = create.orphan_timeout_ms;
  info.agent_sha256 = executable.sha256;
  info.machine = ThisMachine();
  return info;
}

void MakeSlotFolder(const SlotFolder& folder) {
  MakePrivateFolder(folder.path().parent_path());
  if (std::filesystem::exists(folder.path())) {
    throw Error(Phase::kStart, fmt::format("{} exists already", folder.path().string()));
  }
  MakePrivateFolder(folder.path());
}

void BeginLog(const SlotFolder& folder, const std::string& lines) {
  if (lines.empty()) return;
  const UniqueFd log = OpenFile(folder.log(), O_WRONLY | O_CREAT | O_APPEND);
  WriteAll(log.get(), lines, folder.log().string());
}

UniqueFd Fill(const SlotFolder& folder, SlotInfo info, const std::filesystem::path& executable,
              const HostSettings& host, int port) {
  UniqueFd name_lock;
  UniqueFd listener;
  if (info.slot == 0) name_lock = TakeNameLock(info, folder.path());
  // An agent that waits for lost hosts has the job's port, when that is a fixed one.
  EndOtherJobs(info, info.slot == 0 && port != 0 ? Waiting::kEnds : Waiting::kStays);
  if (info.slot == 0) {
    listener = ListenForAgents(info.address, port);
    info.port = LocalPort(listener.get());
  }
  LinkOrCopy(executable, folder.executable(), 0500);
  WriteCurveKeys(folder.key(), MakeCurveKeys());
  WriteSlotInfo(folder, info);
  return LaunchKeeper(folder, info, host, listener.get(), name_lock.get(), kLaunchLimit);
}

}  // namespace

std::filesystem::path BaseOf(const std::filesystem::path& executable) {
  for (auto folder = executable.parent_path(); folder.has_relative_path();
       folder = folder.parent_path()) {
    if (folder.filename() == layout::kAgents) return folder.parent_path();
  }
  throw Error(Phase::kStart,
              fmt::format("{} is not in a folder `{}`", executable.string(), layout::kAgents));
}

UniqueFd CreateSlot(const protocol::Create& create, const AgentFile& executable,
                    const HostSettings& host, const std::string& log) {
  Check(create);
  CheckRoomForStack(Phase::kStart);
  CheckRoomForFiles(protocol::kFileBytesOfASlot, Phase::kStart);
  CheckRoomForDescriptors(protocol::kDescriptorsOfAnAgent, Phase::kStart);
  CheckRoomForThreads(kThreadsOfASlot, 0, Phase::kStart);
  const std::filesystem::path base = BaseOf(executable.path);
  CheckRoomForNewFiles(base, protocol::kFilesOfASlot);
  const SlotFolder folder(base / layout::kJobs / layout::SlotPath(create.job, create.slot));
  MakeSlotFolder(folder);
  try {
    BeginLog(folder, log);
    return Fill(folder, MakeInfo(create, executable), executable.path, host, create.port);
  } catch (...) {
    RemoveSlotFolder(folder);
    throw;
  }
}

}  // namespace tfdist::agent
