// The listening end: one ROUTER socket that lets in whom its keys allow. One thread, no locks.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "runtime/transport/keys.h"
#include "runtime/transport/socket_io.h"
#include "runtime/transport/zap_handler.h"

namespace tfdist::runtime {

// Who sent a message, and the way back.
struct Peer {
  std::string route;  // of the connection; means nothing once that is gone
  std::string task;   // "worker:1", as its key proved; empty without security
};

struct Incoming {
  Peer peer;
  Frames frames;
};

class ServerSocket {
 public:
  // Listens on `endpoint` ("tcp://10.0.0.1:2223"; port * takes any). `keys` absent means no
  // security at all, which its caller must have been asked for. Throws Error(kPorts).
  ServerSocket(const std::string& endpoint, std::optional<ServerKeys> keys);

  // The next message of a peer that was let in; nullopt once `stop_fd` is readable. Waits without
  // limit: a server serves until it is told to end.
  std::optional<Incoming> Receive(int stop_fd);
  // Never waits: a peer that is gone, or does not read, loses the answer and asks again.
  void Send(const Peer& peer, Frames frames);
  // What it listens on, with the real port.
  [[nodiscard]] std::string Endpoint() const;

 private:
  zmq::context_t context_;
  std::unique_ptr<ZapHandler> zap_;  // none without security
  zmq::socket_t socket_;
};

}  // namespace tfdist::runtime
