// One connection to the agent's unix socket: messages in, messages and streams out.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "agent/loop/event_loop.h"
#include "agent/session/stream.h"
#include "base/unique_fd.h"
#include "wire/frame.h"
#include "wire/protocol.h"

namespace tfdist::agent {

// Shared by its server and by requests that are under way: they may end after it is closed.
class Session : public std::enable_shared_from_this<Session> {
 public:
  using MessageHandler = std::function<void(const std::shared_ptr<Session>&, protocol::Message)>;

  Session(EventLoop& loop, UniqueFd fd, MessageHandler on_message);

  // Begins to read. Not in the constructor: a handler needs the shared_ptr. `on_closed` lets go of
  // it.
  void Open(std::function<void()> on_closed);
  // Queues the message; goes before log pieces that still wait. Nothing happens after the close.
  void Send(protocol::Message message);
  // For what can wait: whether little of what was sent is still here.
  [[nodiscard]] bool HasRoom() const { return control_bytes_ < kMaxLogBytes; }
  // Log pieces. A sender of many waits for LogReady().
  void SendLog(protocol::Message message);
  [[nodiscard]] bool LogReady() const { return log_bytes_ < kMaxLogBytes; }

  // Between them nothing is read: the sender waits. They nest.
  void Hold();
  void Unhold();

  void AddStream(uint64_t id, std::unique_ptr<Stream> stream);
  void CreditStream(uint64_t id, uint64_t bytes);
  void CancelStream(uint64_t id);
  // Something new may be there for the streams.
  void PumpStreams();
  // Streams that have not ended, or whose last bytes are not written out yet.
  [[nodiscard]] bool HasOpenStreams() const;

  void Close();

 private:
  static constexpr size_t kMaxLogBytes = 256 * 1024;
  // Beyond it nothing more is read from a peer that does not take its answers.
  static constexpr size_t kMaxControlBytes = 4 * 1024 * 1024;
  static constexpr size_t kMaxStreams = 4096;

  void OnReady(short revents);
  void Read();
  void Dispatch();
  void Write();
  bool TakeNext();
  void UpdateEvents();
  void DropEndedStreams();

  EventLoop& loop_;
  UniqueFd fd_;
  MessageHandler on_message_;
  std::function<void()> on_closed_;
  EventLoop::Watch watch_;
  protocol::FrameReader reader_;
  int holds_ = 0;
  bool dispatching_ = false;

  // One message; what it carries is written from where it lies.
  struct Outgoing {
    std::string head;
    std::string payload;
    [[nodiscard]] size_t size() const { return head.size() + payload.size(); }
  };
  static Outgoing OutgoingOf(protocol::Message message);

  std::deque<Outgoing> control_;
  std::deque<Outgoing> log_;
  size_t control_bytes_ = 0;
  size_t log_bytes_ = 0;
  Outgoing current_;    // being written
  size_t written_ = 0;  // of current_

  std::map<uint64_t, std::unique_ptr<Stream>> streams_;
};

}  // namespace tfdist::agent
