// To a server whose address is not known yet.
#pragma once

#include <vector>

#include "runtime/transport/connection.h"

namespace tfdist::runtime {

class NoConnection : public Connection {
 public:
  bool Send(Message&) override { return false; }
  bool HasRoomFor(size_t) override { return false; }
  bool Receive(Message&) override { return false; }
  Event NextEvent() override { return Event::kNone; }
  bool BeforePoll(std::vector<pollfd>&) override { return true; }
};

}  // namespace tfdist::runtime
