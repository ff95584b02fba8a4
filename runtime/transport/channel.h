// A trainer's way to one parameter server: one request at a time, sent again when the connection
// breaks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/transport/keys.h"
#include "runtime/transport/messages.h"
#include "runtime/transport/socket_io.h"

namespace tfdist::runtime {

// Not movable: stays with the zmq sockets, on one thread. The context must outlive it.
class Channel {
 public:
  // `name` is for texts: "ps:1 at 10.0.0.2:2223". Connects in the background, for as long as it
  // takes.
  Channel(zmq::context_t& context, std::string name, const std::string& endpoint,
          const std::optional<ClientKeys>& keys);
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // Begins a request; `purpose` is for texts ("reply to step 12"). Fills in the sequence number.
  // The one before must have been answered.
  void Start(Request request, const TensorViews& values, std::string purpose);
  [[nodiscard]] bool busy() const { return !pending_.empty(); }

  // Takes what has arrived, without waiting. The reply of the request, once it is there, with its
  // values in `frames`. Throws Error(kRun) when the server refuses the request, Error(kAuth) when
  // it refuses our key, Error(kConnect) when what listens there speaks another protocol.
  struct Answer {
    Reply reply;
    Frames frames;
  };
  std::optional<Answer> TakeAnswer();

  // What it waits for: "connection", or the purpose of the request.
  [[nodiscard]] std::string_view WaitsFor() const;
  [[nodiscard]] const std::string& name() const { return name_; }
  // Poll both for input.
  zmq::socket_t& socket() { return socket_; }
  zmq::socket_t& monitor() { return monitor_; }

 private:
  void FollowConnection();
  void HandleEvent(uint16_t event);
  void SendPending();
  std::optional<Answer> Matching(Frames frames);

  std::string name_;
  zmq::socket_t socket_;
  zmq::socket_t monitor_;  // tells of connections made and lost
  bool connected_ = false;
  uint64_t sequence_ = 0;
  Frames pending_;  // the request that is not answered yet
  std::string purpose_;
};

}  // namespace tfdist::runtime
