// A port that refuses connections, or where nothing comes back. Nobody listens there, or the host is off; or a firewall counts connections (ufw limit: six in 30 s) and takes
// them again after half a minute. What tells one from the other: this account has just got through several times.
#pragma once

#include <chrono>

#include "base/clock.h"
#include "cli/ssh/config/openssh_config.h"
#include "cli/ssh/config/target.h"

namespace tfdist::ssh {

// A connection to the host has come about. Remembered in target.connections, where that is named; a failure to do so has no
// effect. For any thread, and for any process at a time.
void RememberConnection(const Target& target, const HostConfig& host);

// Of one login.
class RefusedPort {
 public:
  // Both must outlive it.
  RefusedPort(const Target& target, const HostConfig& host) : target_(target), host_(host) {}

  // Waits until a refused connection may be tried again: three times, for 36 s in all, by which both times are moved; on_note is
  // told. False: it is not to be tried again, as nothing speaks for a firewall, or that has not helped; or as nobody listens
  // there, of a target that does not wait for firewalls.
  bool WaitAfterRefusal(TimePoint& deadline, TimePoint& give_up);
  // The same after a try in which nothing has come back, where the target waits for firewalls: once, for 25 s, as the try took its
  // time, too.
  bool WaitAfterSilence(TimePoint& deadline, TimePoint& give_up);

 private:
  bool Wait(std::chrono::milliseconds pause, TimePoint& deadline, TimePoint& give_up);
  [[nodiscard]] bool MayBeCounted() const;

  const Target& target_;
  const HostConfig& host_;
  size_t waits_ = 0;
};

}  // namespace tfdist::ssh
