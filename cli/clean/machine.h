// A machine by the way there: its slots share a folder.
#pragma once

#include <string>
#include <utility>

#include "cli/plan/plan.h"

namespace tfdist::cli {

using Machine = std::pair<bool, std::string>;  // this one; its name for ssh

inline Machine MachineOf(const HostPlan& host) { return {host.local, host.local ? "" : host.ssh}; }

}  // namespace tfdist::cli
