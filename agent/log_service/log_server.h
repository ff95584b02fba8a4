// Serves the coordinator's readers: logs of this slot's tasks, over the bulk connection.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "agent/log_service/log_stream.h"
#include "agent/session/stream.h"
#include "wire/protocol.h"

namespace tfdist::agent {

class LogServer {
 public:
  // Makes the stream that answers a request; throws Error(kLogs).
  using MakeStream = std::function<std::unique_ptr<Stream>(
      uint64_t id, const protocol::ReadLog& request, LogStream::Sink sink)>;

  LogServer(MakeStream make, LogStream::Sink sink)
      : make_(std::move(make)), sink_(std::move(sink)) {}

  // read_log (an id that is in use begins anew), credit, cancel.
  void OnMessage(const protocol::Message& message);
  // The connection takes more.
  void Pump();

 private:
  void Open(const protocol::Message& message);

  MakeStream make_;
  LogStream::Sink sink_;
  std::map<uint64_t, std::unique_ptr<Stream>> streams_;
};

}  // namespace tfdist::agent
