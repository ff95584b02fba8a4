// This slot's place in the job: the member, the coordinator where this is slot 0, and the
// connection between the two. One thread, the loop's.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <zmq.hpp>

#include "agent/control/dialer.h"
#include "agent/control/uplink.h"
#include "agent/coordinator/coordinator.h"
#include "agent/deploy/own_slot.h"
#include "agent/keeper/keeper_link.h"
#include "agent/log_service/local_logs.h"
#include "agent/log_service/log_server.h"
#include "agent/loop/event_loop.h"
#include "agent/loop/file_thread.h"
#include "agent/member/member.h"
#include "agent/tasks/host_tasks.h"
#include "wire/task_look.h"

namespace tfdist::agent {

class Membership {
 public:
  // They outlive this object.
  struct Parts {
    EventLoop& loop;
    FileThread& files;
    const OwnSlot& slot;
    const KeeperLink& keeper;
    HostTasks& tasks;
    LocalLogs& logs;
  };
  struct Handlers {
    std::function<void()> on_news;     // slot 0: readers of events and logs may find something new
    std::function<void()> on_release;  // the coordinator does not need this agent any more
    // Files of the job (file_fetch.h): `ask_file` of another slot, on slot 0; `file_part` elsewhere.
    std::function<void(int slot, const protocol::Message&)> on_file_ask;
    std::function<void(const protocol::Message&)> on_file_part;
  };

  Membership(Parts parts, Handlers handlers);

  // Goes on with what an earlier agent had been told. Once, before the loop runs. Throws Error.
  void Resume();
  // The job is over: lets the other agents go where this is slot 0, then calls `done`.
  void Release(std::function<void()> done);
  // What this host's tasks look like now.
  void Look(const protocol::LookRequest& request, std::function<void(protocol::HostLook)> done);

  // Both may get lost.
  void AskFirstHost(const protocol::Message& message);
  void Answer(int slot, const protocol::Message& message);

  [[nodiscard]] Member& member() { return member_; }
  [[nodiscard]] const Member& member() const { return member_; }
  [[nodiscard]] Dialer& dialer() { return dialer_; }
  [[nodiscard]] Coordinator* coordinator() { return coordinator_.get(); }  // nullptr: not slot 0

  // The job exists, as far as this slot knows.
  [[nodiscard]] bool committed() const;
  // The job has ended, as far as this slot knows.
  [[nodiscard]] bool over() const;
  // Slot 0: the job has ended, and all that happened is on disk.
  [[nodiscard]] bool EndIsWritten() const;

 private:
  std::unique_ptr<Coordinator> MakeCoordinator();
  LogStream::Sink BulkSink();
  void OnBulk(const protocol::Message& message);
  Member::Handlers MemberHandlers();
  Uplink::Handlers UplinkHandlers();
  void Connect(const CoordinatorAddress& coordinator);
  void OnCommitted();
  void KeepOrphaned(const std::string& why);

  Parts parts_;
  std::optional<FileThread> looking_;  // from the first look on: one may take seconds
  Handlers handlers_;
  bool told_committed_;  // by the coordinator, on slots other than 0
  zmq::context_t context_;
  std::unique_ptr<Coordinator> coordinator_;  // slot 0
  LogServer log_server_;
  Member member_;
  Dialer dialer_;
};

}  // namespace tfdist::agent
