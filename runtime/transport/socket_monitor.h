// What happens to the connections of one ZeroMQ socket: zmq_socket_monitor(3).
#pragma once

#include <cstdint>
#include <optional>
#include <zmq.hpp>

namespace tfdist::runtime {

// On the socket's thread. The context and the socket must outlive it.
class SocketMonitor {
 public:
  // `events`: ZMQ_EVENT_..., one or several. At most `queued` frames (0: any number) wait to be
  // read; beyond that ZeroMQ's own thread waits, and all of the context's connections with it.
  // Throws zmq::error_t.
  SocketMonitor(zmq::context_t& context, zmq::socket_t& socket, int events, int queued);
  // An event that nobody is there to read would stop ZeroMQ's own thread for good.
  ~SocketMonitor();
  SocketMonitor(const SocketMonitor&) = delete;
  SocketMonitor& operator=(const SocketMonitor&) = delete;

  struct Happened {
    uint16_t event = 0;
    uint32_t value = 0;  // a descriptor or an errno, by the event
  };
  // nullopt when nothing is left. Call it until then before `fd` is polled.
  std::optional<Happened> Next();
  // Readable when there may be something.
  [[nodiscard]] int fd() { return events_.get(zmq::sockopt::fd); }

 private:
  void* stopped_first_ = nullptr;  // the socket, where its thread never waits for a reader
  zmq::socket_t events_;
};

}  // namespace tfdist::runtime
