// The agent proper: one slot's part of one job. Builds the parts, ties them together, and says when
// the agent begins and ends.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <zmq.hpp>

#include "agent/agent/deployment.h"
#include "agent/agent/farewell.h"
#include "agent/agent/log_server.h"
#include "agent/agent/requests.h"
#include "agent/control/curve_keys.h"
#include "agent/control/dialer.h"
#include "agent/control/uplink.h"
#include "agent/coordinator/coordinator.h"
#include "agent/keeper/keeper_link.h"
#include "agent/loop/event_loop.h"
#include "agent/loop/file_thread.h"
#include "agent/loop/log_sink.h"
#include "agent/member/member.h"
#include "agent/protocol.h"
#include "agent/session/session_table.h"
#include "agent/slot/slot_folder.h"
#include "agent/tasks/host_tasks.h"

namespace tfdist::agent {

class Agent {
 public:
  // Goes on where an earlier agent of this slot was killed. Throws Error.
  explicit Agent(KeeperLink& keeper);

  // Returns when the job is over, or was given up before it began.
  void Run() { loop_.Run(); }

 private:
  std::unique_ptr<Coordinator> MakeCoordinator();
  Requests::Actions RequestActions();
  Member::Handlers MemberHandlers();
  Uplink::Handlers UplinkHandlers();
  [[nodiscard]] protocol::Hello MakeHello() const;
  // What an earlier agent had been told.
  void Resume();

  void Connect(const CoordinatorAddress& coordinator);
  std::unique_ptr<Stream> OpenLog(uint64_t id, const protocol::ReadLog& request,
                                  LogStream::Sink sink);
  void OnMessage(const std::shared_ptr<Session>& session, const protocol::Message& message);
  void OnKeeper();
  void OnNews();
  void OnCommitted();
  [[nodiscard]] bool committed() const;
  [[nodiscard]] bool over() const;
  [[nodiscard]] Contact FindContact() const;

  void CheckUncommitted();
  // Says to other jobs that this one still needs its folder.
  void TouchFolder();
  // `left`: what could not be removed, or empty.
  void RemoveFolder(std::function<void(const std::string& left)> done);
  void Leave();
  void StopWhenTaken();

  KeeperLink& keeper_;
  SlotFolder folder_;
  SlotInfo info_;
  CurveKeys keys_;
  bool told_committed_;  // by the coordinator, on slots other than 0

  EventLoop loop_;
  zmq::context_t context_;
  FileThread files_;
  LogSink log_sink_;
  HostTasks tasks_;
  std::unique_ptr<Coordinator> coordinator_;  // slot 0
  LogServer log_server_;
  Member member_;
  Dialer dialer_;
  Deployment deployment_;
  Requests requests_;
  SessionTable sessions_;
  Farewell farewell_;

  EventLoop::Watch notes_watch_;
  EventLoop::Watch keeper_watch_;
  TimePoint heard_from_cli_;
  EventLoop::Timer uncommitted_timer_;
  bool name_freed_ = false;  // slot 0: asked for, once the job's end is on disk
  bool leaving_ = false;
  std::optional<TimePoint> leave_limit_;
  EventLoop::Timer touch_timer_;
  EventLoop::Timer leave_timer_;
};

}  // namespace tfdist::agent
