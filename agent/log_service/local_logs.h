// The logs of this host's tasks, for readers near and far.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "agent/log_service/log_stream.h"
#include "agent/loop/event_loop.h"
#include "agent/loop/file_thread.h"
#include "agent/session/stream.h"
#include "agent/slot/slot_folder.h"
#include "agent/tasks/host_tasks.h"
#include "wire/protocol.h"

namespace tfdist::agent {

class LocalLogs {
 public:
  // `over`: nothing more will be written to any log. All outlive this object and its streams.
  LocalLogs(EventLoop& loop, FileThread& files, const SlotFolder& folder, const HostTasks& tasks,
            std::function<bool()> over);

  // A stream that answers `request`. Throws Refusal when there is no such task.
  std::unique_ptr<Stream> Open(uint64_t id, const protocol::ReadLog& request, LogStream::Sink sink);

 private:
  EventLoop& loop_;
  // Searches have a thread of their own, from the first on: what a pattern makes of a long log keeps
  // no event from the disk.
  FileThread& ThreadFor(const protocol::ReadLog& request);

  FileThread& files_;
  std::optional<FileThread> searching_;
  const SlotFolder& folder_;
  const HostTasks& tasks_;
  std::function<bool()> over_;
};

}  // namespace tfdist::agent
