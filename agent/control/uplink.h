// A slot's way to the coordinator: over ZeroMQ, or within the process on slot 0.
#pragma once

#include <functional>

#include "wire/control.h"
#include "wire/protocol.h"

namespace tfdist::agent {

class Uplink {
 public:
  // What comes from the coordinator; set before anything is sent.
  struct Handlers {
    std::function<void(const Beat&)> on_beat;
    std::function<void(const Order&)> on_order;
    std::function<void()> on_release;
    std::function<void(const protocol::Message&)> on_bulk;  // read_log, credit, cancel
    std::function<void()> on_bulk_writable;
  };

  Uplink() = default;
  Uplink(const Uplink&) = delete;
  Uplink& operator=(const Uplink&) = delete;
  virtual ~Uplink() = default;

  // May get lost; the next one says the same.
  virtual void Send(const HostReport& report) = 0;
  // Log messages. A message that cannot be sent at once waits. A sender of many waits for
  // BulkWritable.
  virtual void SendBulk(protocol::Message message) = 0;
  [[nodiscard]] virtual bool BulkWritable() = 0;
};

}  // namespace tfdist::agent
