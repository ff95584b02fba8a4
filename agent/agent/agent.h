// The agent proper: one slot's part of one job. Builds the parts and ties them together. What each
// part decides, and when the agent ends, its own header says. The parts run on the loop's thread;
// what may wait for a disk runs on the file thread.
#pragma once

#include <memory>

#include "agent/agent/membership.h"
#include "agent/agent/requests.h"
#include "agent/deploy/deployment.h"
#include "agent/deploy/own_slot.h"
#include "agent/keeper/keeper_link.h"
#include "agent/leave/commit_watch.h"
#include "agent/leave/departure.h"
#include "agent/leave/farewell.h"
#include "agent/leave/folder_use.h"
#include "agent/leave/keeper_watch.h"
#include "agent/log_service/local_logs.h"
#include "agent/log_service/shared_logs.h"
#include "agent/loop/event_loop.h"
#include "agent/loop/file_thread.h"
#include "agent/loop/log_sink.h"
#include "agent/session/session_table.h"
#include "agent/tasks/host_tasks.h"
#include "wire/protocol.h"

namespace tfdist::agent {

class Agent {
 public:
  // Goes on where an earlier agent of this slot was killed. Throws Error.
  explicit Agent(KeeperLink& keeper);

  // Returns when the job is over, or was given up before it began.
  void Run() { loop_.Run(); }

 private:
  Requests::Parts RequestParts();
  Requests::Actions RequestActions();
  void OnMessage(const std::shared_ptr<Session>& session, const protocol::Message& message);
  // Slot 0: something new is in the job's events.
  void OnNews();
  void OnDescribed(const protocol::HostDescription& description);
  void MarkWhatIsUsed(const protocol::HostDescription& description);
  void RemoveFolder(std::function<void(const std::string& left)> done);
  void OnLeaving();
  void FreeName();
  [[nodiscard]] Contact FindContact() const;

  KeeperLink& keeper_;
  const OwnSlot slot_;
  EventLoop loop_;
  FileThread files_;
  LogSink log_sink_;
  HostTasks tasks_;
  LocalLogs logs_;
  SharedLogs shared_logs_;
  Membership membership_;
  Deployment deployment_;
  Requests requests_;
  SessionTable sessions_;
  Departure departure_;
  Farewell farewell_;
  KeeperWatch keeper_watch_;
  CommitWatch commit_watch_;
  FolderUse folder_use_;
  bool name_freed_ = false;  // slot 0: asked for, once the job's end is on disk
};

}  // namespace tfdist::agent
