// What a login waits for, whichever program makes it.
#pragma once

#include <chrono>

#include "base/clock.h"
#include "cli/ssh/config/openssh_config.h"
#include "cli/ssh/config/places.h"
#include "cli/ssh/config/target.h"

namespace tfdist::ssh {

// ssh's configuration of the host, as HostConfigs::Of; few ask for it at a time. A program of this machine is asked: the caller's
// deadline, which is the host's, is moved by its time.
HostConfig ConfigOf(const Target& target, TimePoint& deadline);

// `target` with the time that the host may take until it says its SSH version: no less than ConnectTimeout, and more where a
// program leads there, which may have to start a machine first. `deadline` is moved by what that is longer than target.limits.
Target WithTimeToConnect(Target target, const HostConfig& host, TimePoint& deadline);

// The places of one login among those of this process: in all, at the machine in between, at the
// host's sshd.
struct LoginPlaces {
  Places::Place in_all;
  Places::Place at_gateway;
  Places::Place at_sshd;
};

// Waits for them. The caller's deadline is moved by the time waited.
LoginPlaces TakeLoginPlaces(const HostConfig& host, const Target& target, TimePoint& deadline);

// The pause after `tries` failed logins. Random: hosts that dropped us together are not tried
// together again.
std::chrono::milliseconds PauseAfter(int tries);

}  // namespace tfdist::ssh
