// What this agent knows of its own slot from the start. Never changes while it runs.
#pragma once

#include "agent/control/curve_keys.h"
#include "agent/deploy/told.h"
#include "agent/keeper/keeper_link.h"
#include "agent/slot/slot_folder.h"
#include "wire/protocol.h"

namespace tfdist::agent {

struct OwnSlot {
  SlotFolder folder;
  SlotInfo info;
  CurveKeys keys;
  Told told;

  // Slot 0 carries the coordinator.
  [[nodiscard]] bool leads() const { return info.slot == 0; }
};

// Throws Error when the folder holds no usable keys.
OwnSlot ReadOwnSlot(const KeeperLink& keeper);

// What this agent says to each new session.
protocol::Hello MakeHello(const OwnSlot& slot);

}  // namespace tfdist::agent
