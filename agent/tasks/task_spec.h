// From a task's description to what its holder is told: addresses and paths filled in, the
// environment complete.
#pragma once

#include <string>
#include <vector>

#include "agent/process/run_folder.h"
#include "agent/protocol.h"
#include "agent/slot/slot_folder.h"
#include "agent/tasks/environment.h"

namespace tfdist::agent {

// What is known only when an attempt starts.
struct AttemptContext {
  std::string host;  // the slot's, as the user wrote it
  int attempt = 1;
  std::vector<std::string> addresses;  // of all slots
};

// Throws Error(kControl) when the description names a slot that has no address.
RunSpec MakeRunSpec(const protocol::TaskDescription& task, const SlotFolder& folder,
                    const SlotInfo& info, const Environment& host, const AttemptContext& context,
                    int run);

// The same before any attempt, for looking at the command: with empty addresses.
RunSpec MakePreflightSpec(const protocol::TaskDescription& task, const SlotFolder& folder,
                          const SlotInfo& info, const Environment& host);

}  // namespace tfdist::agent
