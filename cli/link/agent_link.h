// A conversation with one agent: messages of wire/protocol.h over a ByteChannel.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/failures.h"
#include "cli/channel/byte_channel.h"
#include "wire/frame.h"
#include "wire/protocol.h"

namespace tfdist::cli {

// An agent that was started says nothing. Starting it again would do the same.
class SaysNothing : public LostConnection {
 public:
  using LostConnection::LostConnection;
};

// The events in an `event` message, in order. Throws ProtocolError.
std::vector<protocol::Event> EventsOf(const protocol::Message& message);

// How far the clock of a job's events is ahead of this machine's, in whole seconds, as an answer takes a while; `end`: of an
// event stream, as it came. 0: it does not tell.
int64_t AheadNsOf(const protocol::Message& end);

// Belongs to one thread at a time. Deadlines hold while bytes keep coming, too (see Grace).
class AgentLink {
 public:
  // `channel` must stand right before the agent's first frame.
  explicit AgentLink(std::unique_ptr<ByteChannel> channel);

  // The agent's first message. Throws LostConnection on end of file, SaysNothing at `deadline`, Error(kStart) when
  // versions do not meet (naming both).
  protocol::Hello ReadHello(TimePoint deadline);

  // Tells the `start` role to create the job's folder and agent; the hello of that agent, which is
  // the other end from then on. Throws what the role answers with.
  protocol::Hello Create(const protocol::Create& create, TimePoint deadline);

  // Lets an agent go on that is stopped (Hello::silent): the hello of that agent, which is the other end from then on, or of
  // its folder, which stays it where the agent is silent still.
  protocol::Hello Resume(TimePoint deadline);

  // Sends a request and waits for its answer; throws the Refusal that the agent answers with, or
  // LostConnection on timeout (naming `type`), end of file, or pings unanswered for 15 s. Messages
  // of other ids that come meanwhile go to the handler given to OnMessage. `check` is called
  // several times a second meanwhile: what it throws ends the wait, and the answer is dropped when
  // it comes.
  protocol::Json Call(std::string_view type, protocol::Json body, TimePoint deadline,
                      const std::function<void()>& check = {});
  // The same, and the answer as an Answer; throws ProtocolError where it is none.
  template <typename Answer>
  Answer Ask(std::string_view type, protocol::Json body, TimePoint deadline) {
    return protocol::Body<Answer>({std::string(type), 0, Call(type, std::move(body), deadline)});
  }
  // Sends without waiting; returns the id.
  uint64_t Send(std::string_view type, protocol::Json body);
  void SendWithId(std::string_view type, uint64_t id, protocol::Json body);
  void Send(const protocol::Message& message);
  // For SendWithId: of no other message.
  uint64_t NewId() { return next_id_++; }
  // The next message that is not a pong of ours; nullopt on timeout. Throws LostConnection on
  // end of file. Pings go out by themselves while any call of this class waits.
  std::optional<protocol::Message> Receive(TimePoint deadline);
  // For a peer that reads nothing while it works: deadlines count then.
  void StopPings() { pinging_ = false; }
  void OnMessage(std::function<void(const protocol::Message&)> handler);
  [[nodiscard]] int PollFd() const;
  // Folders of finished jobs that the `start` role has removed, as it said before the second hello.
  [[nodiscard]] const std::vector<std::string>& removed() const { return removed_; }

 private:
  void TakeRemoved(const protocol::Message& message);
  void PingWhenDue();
  void ThrowIfSilentForTooLong() const;
  // Once for each silence.
  void NameTheSilence(TimePoint end);
  std::optional<protocol::Message> Next(TimePoint deadline);
  // What has been read, and the others' text passed over. Throws ProtocolError with a remedy.
  std::optional<protocol::Message> TakeMessage();

  std::unique_ptr<ByteChannel> channel_;
  protocol::FrameReader reader_;
  std::function<void(const protocol::Message&)> handler_;
  std::vector<std::string> removed_;
  size_t stray_bytes_ = 0;  // of what others have printed into the connection
  std::string stray_;
  uint64_t next_id_ = 1;
  bool greeted_ = false;
  bool pinging_ = false;  // once the agent has said hello
  bool named_ = false;    // the silence that goes on
  TimePoint next_ping_{};
  std::optional<TimePoint> unanswered_since_;
};

}  // namespace tfdist::cli
