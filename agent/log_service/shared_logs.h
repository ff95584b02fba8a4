// Copies this host's task logs into the job's shared folder, where there is one, while the tasks run:
// <shared>/<job id>/worker-0.log. On a thread of its own, which nobody waits for for long: a file
// server that hangs costs copies and nothing else.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "agent/loop/event_loop.h"
#include "agent/slot/slot_folder.h"
#include "wire/protocol.h"

namespace tfdist::agent {

class SharedLogs {
 public:
  // `umask`: of the account; the copies are as readable as what its own programs make.
  SharedLogs(EventLoop& loop, const SlotFolder& folder, const SlotInfo& info, mode_t umask);
  ~SharedLogs();

  // Nothing where the description names no shared folder. Once.
  void Begin(const protocol::HostDescription& description);
  // The tasks have ended: what is left is copied, then nothing more.
  void Finish();
  // Begun, and not finished: there may be something left to copy.
  [[nodiscard]] bool busy() const;

 private:
  struct Shared;

  // Says what is wrong, once each time that it changes.
  void Tell();

  static constexpr std::chrono::seconds kTellInterval{5};

  const SlotFolder& folder_;
  const SlotInfo& info_;
  mode_t umask_;
  std::shared_ptr<Shared> shared_;  // with the thread; none: nothing is copied
  std::string told_;
  EventLoop::Timer tell_;
};

}  // namespace tfdist::agent
