// A question to the agent of another slot on this host, over its unix socket.
#pragma once

#include <optional>
#include <string_view>

#include "agent/slot/slot_folder.h"
#include "base/clock.h"
#include "wire/protocol.h"

namespace tfdist::agent {

// The body of its answer. nullopt: no agent is there, or it has not answered by `deadline`, or it
// has refused. Blocks.
std::optional<protocol::Json> AskAgent(const SlotFolder& folder, std::string_view type,
                                       protocol::Json body, TimePoint deadline);

}  // namespace tfdist::agent
