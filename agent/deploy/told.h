// What the command had told an earlier agent of this slot, from the slot's folder. A damaged file
// ends nobody: the agent goes on with what is left, and says which file it was.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "agent/control/zmq_uplink.h"
#include "agent/slot/slot_folder.h"
#include "wire/protocol.h"

namespace tfdist::agent {

struct Told {
  // Of a damaged one: the tasks that have run here, by their names alone. They are watched, stopped
  // and reported, but not started again.
  protocol::HostDescription description;
  std::vector<std::string> peers;                 // slot 0: public keys by slot; empty: not known
  std::optional<CoordinatorAddress> coordinator;  // other slots
  std::string damage;                             // which files could not be read, and why
};

// Throws Error(kFiles) when the disk fails.
Told ReadTold(const SlotFolder& folder);

}  // namespace tfdist::agent
