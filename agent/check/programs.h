// What programs of the host say about it. Each is run for a while at most, and without a shell.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "wire/host_check.h"

namespace tfdist::agent {

// The version of the Python that `program` is, and those of `packages`. `settings`: NAME=value for
// variables that say which Python and which packages are meant; they become visible to ps(1).
protocol::PythonFact AskPython(const std::string& program, const std::vector<std::string>& settings,
                               const std::vector<std::string>& packages, TimePoint deadline);

// Whether logind ends this login's processes when its user logs out; asked only where this process
// belongs to a session of logind.
std::optional<protocol::Trouble> FindLogoutTrouble(TimePoint deadline);

// Whether systemd ends this login, with all that runs in it, when the kernel ends one of its processes for want of memory. Asked
// only where this process belongs to a session of logind.
std::optional<protocol::Trouble> FindMemoryTrouble(TimePoint deadline);

// The parts that need no program.
// What `loginctl show-session -p ...` prints of the manager, and the name of the user.
bool EndsProcesses(std::string_view answer, std::string_view user);
// What `systemctl show -p OOMPolicy` prints of a scope, and what `systemctl --version` does.
bool EndsLoginsShortOfMemory(std::string_view policy, std::string_view version);
// From the content of /proc/self/cgroup: "session-3.scope"; empty: in none.
std::string SessionOf(std::string_view cgroup);

}  // namespace tfdist::agent
