// All open sessions of the agent.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <set>

#include "agent/loop/event_loop.h"
#include "agent/session/session.h"
#include "agent/session/unix_listener.h"
#include "wire/protocol.h"

namespace tfdist::agent {

class SessionTable {
 public:
  SessionTable(EventLoop& loop, const std::filesystem::path& folder, protocol::Hello hello,
               Session::MessageHandler on_message);

  // Something new may be there for streams.
  void PumpStreams();
  void SendToAllBut(const std::shared_ptr<Session>& one, const protocol::Message& message);
  // Somebody still reads, or has not taken all that was sent.
  [[nodiscard]] bool HasReaders() const;
  [[nodiscard]] size_t size() const { return sessions_.size(); }

 private:
  void Add(UniqueFd fd);

  EventLoop& loop_;
  protocol::Hello hello_;
  Session::MessageHandler on_message_;
  std::set<std::shared_ptr<Session>> sessions_;
  UnixListener listener_;
};

}  // namespace tfdist::agent
