// What comes before the commit: files, descriptions, and whether the tasks could run here.
#pragma once

#include <memory>
#include <string>

#include "agent/files/file_store.h"
#include "agent/loop/file_thread.h"
#include "agent/protocol.h"
#include "agent/session/reply.h"
#include "agent/session/session.h"
#include "agent/slot/slot_folder.h"
#include "agent/tasks/host_tasks.h"

namespace tfdist::agent {

class Deployment {
 public:
  Deployment(FileThread& files, const SlotFolder& folder, const SlotInfo& info, HostTasks& tasks);

  // The requests `need`, `file` and `describe`. They throw Error when malformed.
  void Need(const std::shared_ptr<Session>& session, const protocol::Message& message);
  void File(const std::shared_ptr<Session>& session, const protocol::Message& message);
  void Describe(const std::shared_ptr<Session>& session, const protocol::Message& message);

 private:
  FileThread& files_;
  const SlotFolder& folder_;
  const SlotInfo& info_;
  HostTasks& tasks_;
  std::shared_ptr<FileStore> store_;  // belongs to the file thread
};

}  // namespace tfdist::agent
