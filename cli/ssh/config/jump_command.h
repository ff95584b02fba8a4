// The ssh that goes through jump hosts. What ssh makes of ProxyJump by itself would not do: it passes neither BatchMode nor
// StrictHostKeyChecking on, so the jump's key could be asked about in a window (SSH_ASKPASS), or taken unseen.
#pragma once

#include <string>
#include <vector>

#include "cli/ssh/config/target.h"

namespace tfdist::ssh {

// argv of an ssh whose stdin and stdout are a connection to `to`, "[HOST]:PORT", through `jumps`, "a,b,c" as ssh -G says
// ProxyJump. At each of them unknown keys are refused, or added, as at the target, and nothing is asked.
std::vector<std::string> JumpCommand(const std::string& jumps, const std::string& to,
                                     const Target& target);

// The same as a value of ProxyCommand for the target.
std::string JumpProxyCommand(const std::string& jumps, const Target& target);

// argv with which `ssh`, an argv too, cannot ask on a display either, nor can the ssh programs that it starts.
std::vector<std::string> WithoutQuestions(const std::vector<std::string>& ssh);

}  // namespace tfdist::ssh
