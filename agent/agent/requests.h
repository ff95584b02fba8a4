// What the CLI may ask an agent, and who answers.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "agent/control/dialer.h"
#include "agent/coordinator/coordinator.h"
#include "agent/deploy/deployment.h"
#include "agent/log_service/log_stream.h"
#include "agent/loop/file_thread.h"
#include "agent/member/member.h"
#include "agent/session/reply.h"
#include "agent/session/session.h"
#include "wire/contact.h"
#include "wire/protocol.h"
#include "wire/task_look.h"

namespace tfdist::agent {

class Requests {
 public:
  // The parts that do the work; they outlive this object.
  struct Parts {
    FileThread& files;
    const SlotFolder& folder;
    const SlotInfo& info;
    Deployment& deployment;
    Dialer& dialer;
    Member& member;
    Coordinator* coordinator;  // slot 0
  };
  struct Actions {
    std::function<bool()> committed;
    std::function<Contact()> contact;
    // A stream of a log on this host; throws Error(kLogs) when there is no such task.
    std::function<std::unique_ptr<Stream>(uint64_t, const protocol::ReadLog&, LogStream::Sink)>
        read_log;
    // This host's tasks, now; `done` gets what was seen.
    std::function<void(const protocol::LookRequest&, std::function<void(protocol::HostLook)> done)>
        look;
    // To all sessions but that one.
    std::function<void(const std::shared_ptr<Session>&, const protocol::Message&)> say_to_others;
    // `left`: what could not be removed, or empty.
    std::function<void(std::function<void(const std::string& left)> done)> remove_folder;
    std::function<void()> leave;
  };

  Requests(Parts parts, Actions actions) : parts_(parts), actions_(std::move(actions)) {}

  // The mark in the shared folder, if the CLI has had one made and not removed: it was killed, say.
  void RemoveForgottenMark();

  // An Error becomes the answer.
  void Handle(const std::shared_ptr<Session>& session, const protocol::Message& message);

 private:
  void Dispatch(const std::shared_ptr<Session>& session, const protocol::Message& message);
  void Resolve(const Reply& reply, const protocol::Message& message);
  void MarkShared(const Reply& reply, const protocol::Message& message);
  void FindShared(const Reply& reply, const protocol::Message& message);
  void UnmarkShared(const Reply& reply, const protocol::Message& message);
  void Room(const Reply& reply, const protocol::Message& message);
  void Peers(const Reply& reply, const protocol::Message& message);
  void Dial(const Reply& reply, const protocol::Message& message);
  // To be found again by an agent that takes over from this one.
  void KeepCoordinator(const Reply& reply);
  void Commit(const Reply& reply, const protocol::Message& message);
  void Abort(const Reply& reply);
  void Events(const std::shared_ptr<Session>& session, const protocol::Message& message);
  void ReadLog(const std::shared_ptr<Session>& session, const protocol::Message& message);
  void Look(const std::shared_ptr<Session>& session, const protocol::Message& message);
  void Restart(const Reply& reply, const protocol::Message& message);
  void Stop(const Reply& reply, const protocol::Message& message);
  void Sweep(const std::shared_ptr<Session>& session, const protocol::Message& message);
  // To the `up` that brings the job up: what it waits for will not come.
  void SayThatItNeverBegins(const std::shared_ptr<Session>& who_ends_it) const;

  [[nodiscard]] Coordinator& NeedCoordinator() const;
  void NeedUncommitted() const;

  Parts parts_;
  Actions actions_;
  std::optional<std::pair<std::string, std::string>> mark_;  // path and name
};

}  // namespace tfdist::agent
