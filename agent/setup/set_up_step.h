// The set-up step of a slot, before the job is committed: the agent's side of the role `set-up`. The functions are for the file
// thread, and throw Error.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/keeper/keeper_link.h"
#include "agent/log/log_reader.h"
#include "agent/loop/event_loop.h"
#include "agent/loop/file_thread.h"
#include "agent/slot/slot_folder.h"
#include "base/clock.h"
#include "wire/set_up.h"

namespace tfdist::agent {

// Whether an earlier job has made what the description asks for: then its tasks' texts, and it, name the folder. It counts
// as used. Without a set-up they are done, too.
bool FillIfMade(protocol::HostDescription& description, const SlotInfo& info);
// With what the step has made. Throws Error where that is not there.
void FillMade(protocol::HostDescription& description, const SlotInfo& info);
// Of tasks alone; false: there is nothing.
bool FillMade(std::vector<protocol::TaskDescription>& tasks, const std::string& key,
              const std::filesystem::path& base);
// The mark of what the job's tasks use, which is to be touched while the job lives; empty: nothing.
std::filesystem::path SetUpMark(const protocol::HostDescription& description, const SlotInfo& info);

// Writes what the holder and the role need. The work folder is unpacked.
void PrepareSetUp(const protocol::HostDescription& description, const SlotFolder& folder,
                  const SlotInfo& info);

// What has come of its output, and whether it is over. Throws Error(kSetUp) when it has failed and all output has been taken:
// the cause, and its last lines.
class SetUpLook {
 public:
  explicit SetUpLook(const SlotFolder& folder);
  protocol::SetUpProgress From(uint64_t offset);

 private:
  void ThrowIfFailed();

  SlotFolder folder_;
  LogReader log_;
};

// Starts and ends its processes. On the loop's thread.
class SetUpStep {
 public:
  SetUpStep(EventLoop& loop, FileThread& files, KeeperLink& keeper, const SlotFolder& folder);

  // Again: nothing more, but where the keeper was too busy to take the order.
  void Start();
  // Ends what runs of it, with all that came from it; then, at the latest 3 s later, `done`.
  void End(std::function<void()> done);

 private:
  void LookWhetherOver();

  FileThread& files_;
  KeeperLink& keeper_;
  const SlotFolder& folder_;
  std::vector<std::function<void()>> waiting_;  // for the end
  TimePoint give_up_;
  EventLoop::Timer timer_;
};

}  // namespace tfdist::agent
