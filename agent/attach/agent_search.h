// Finds this slot's agent, and tells one that works from one that is there and does not answer.
#pragma once

#include <optional>
#include <string>

#include "agent/slot/slot_folder.h"
#include "base/unique_fd.h"

namespace tfdist::agent {

struct FoundAgent {
  std::optional<UniqueFd> agent;      // a connection to it, on which its first word has come
  std::optional<std::string> silent;  // there is one that does not answer: Hello::silent
};

// Waits for an agent that is just started again, and 10 s for the word of a slow one; a stopped one is seen at once.
FoundAgent FindAgent(const SlotFolder& folder);

// SIGCONT to keeper, agent and holders of the slot that are stopped; then as FindAgent.
FoundAgent ResumeAgent(const SlotFolder& folder);

}  // namespace tfdist::agent
