// What a slot's agent was told of its tasks, as it keeps it for an agent that takes its place.
#pragma once

#include "agent/slot/slot_folder.h"
#include "wire/protocol.h"

namespace tfdist::agent {

// Of any job's slot. Empty where nothing is described, or what is there is damaged.
protocol::HostDescription ReadDescription(const SlotFolder& folder);

}  // namespace tfdist::agent
