#include "agent/attach/attach_main.h"

#include <chrono>
#include <csignal>
#include <filesystem>
#include <optional>
#include <utility>

#include "agent/attach/agent_search.h"
#include "agent/attach/displaced.h"
#include "agent/attach/folder_server.h"
#include "agent/process/handover.h"
#include "agent/slot/slot_folder.h"
#include "agent/stdio/bridge.h"
#include "base/log.h"

namespace tfdist::agent {
namespace {

constexpr std::chrono::seconds kIdleLimit{30};

HostSettings SetUpAttached() {
  SetLogName("attach");
  HostSettings host = HostSettings::Capture();
  HostSettings::SetOurs();
  (void)std::signal(SIGPIPE, SIG_IGN);
  return host;
}

}  // namespace

int AttachMain() {
  const HostSettings host = SetUpAttached();
  const SlotFolder folder(std::filesystem::read_symlink("/proc/self/exe").parent_path());
  const SlotInfo info = ReadOrInferSlotInfo(folder);
  FoundAgent found = FindAgent(folder);
  if (!found.agent) {
    found.agent = FolderServer(folder, info, host, std::move(found.silent)).Run(kIdleLimit);
  }
  if (found.agent) Bridge(found.agent->get(), kIdleLimit);
  return 0;
}

int DisplacedMain() {
  const HostSettings host = SetUpAttached();
  const SlotFolder folder = DisplacedFolder();
  FolderServer server(folder, ReadOrInferSlotInfo(folder), host, std::nullopt);
  server.SetBeforeSweep([&folder](bool force) { EndWithItsKeeper(folder, force); });
  server.Run(kIdleLimit);
  return 0;
}

}  // namespace tfdist::agent
