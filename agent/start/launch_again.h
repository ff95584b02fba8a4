// Starts the agent of a slot again on which all of the job was killed, as at a reboot.
#pragma once

#include "agent/process/handover.h"
#include "agent/slot/slot_folder.h"

namespace tfdist::agent {

// Ends what is left of the slot first. Slot 0 needs the job's name and its port again: throws NameTaken or ControlPortInUse
// where another one has them. Throws Refusal(kWrongState) while its last tasks are ending, and Error(kStart).
void LaunchAgain(const SlotFolder& folder, const SlotInfo& info, const HostSettings& host);

}  // namespace tfdist::agent
