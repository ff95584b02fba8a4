// Makes a slot's folder and brings its keeper and agent up.
#pragma once

#include <filesystem>
#include <string>

#include "agent/process/handover.h"
#include "base/unique_fd.h"
#include "wire/protocol.h"

namespace tfdist::agent {

// The executable of the role `start`, from which the slot gets its agent.
struct AgentFile {
  std::filesystem::path path;
  std::string sha256;
};

// `<base>` of an executable `<base>/bin/...`. Throws Error(kStart).
std::filesystem::path BaseOf(const std::filesystem::path& executable);

// Returns a connection to the new slot's agent, whose log begins with the lines of `log`: what retention has said just
// before. All or nothing: what was made is removed again when it throws Error.
UniqueFd CreateSlot(const protocol::Create& create, const AgentFile& executable,
                    const HostSettings& host, const std::string& log);

}  // namespace tfdist::agent
