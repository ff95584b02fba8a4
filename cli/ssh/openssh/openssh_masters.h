// Connections that the user's own ssh program keeps, which the channels of this process share (ControlMaster in
// ssh_config(5)): one a host, and a further one where a host has more than eight channels at once, as sshd opens no
// more than ten on one connection (MaxSessions in sshd_config(5)), or where it has refused one. One to each jump host,
// whatever is behind it: connections through it are no sessions.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "cli/ssh/config/target.h"

namespace tfdist::ssh {

struct MasterChannel;

// A channel's place on a connection.
struct MasterPlace {
  std::string socket;                   // the connection's control socket
  std::shared_ptr<MasterChannel> held;  // until the channel ends
  bool is_users = false;                // the user's own connection
};

// A place on a connection that is logged in: the user's own (ControlPath), where one is open; else one of
// this process, which logs in unless it has done so before. For any thread. Throws Error and Unreachable as
// Session::Open does; a password or an unknown key is never asked about. The connection outlives its channels, and ends
// with this process: at once where main returns or EndMasters is called, else (SIGKILL) kPersistSeconds after its last
// channel. The sockets lie in a folder of mode 0700 in /tmp. What a killed process has left there is removed when the
// next one comes here.
// `deadline` is moved by the time in which other logins, ssh-agent or the user were waited for.
MasterPlace TakeMasterPlace(const Target& target, TimePoint& deadline);

// A place instead of one where the host has opened no session. From now on a connection to that host has at most as many channels as that one has
// now. Throws as TakeMasterPlace; Error(kExec) where the host opens no session at all.
MasterPlace TakeAnotherPlace(const Target& target, const MasterPlace& refused, TimePoint& deadline);

// A place beside the user's own connection, on which nothing comes back: this process uses that one no more. Throws as
// TakeMasterPlace.
MasterPlace TakePlaceBesideSilent(const Target& target, const MasterPlace& users,
                                  TimePoint& deadline);

// How long a login may take once the host is asked.
std::chrono::milliseconds LoginLimit(const Limits& limits);

// How a host behind jump hosts is reached.
struct JumpWay {
  std::vector<std::string> argv;  // of an ssh whose stdin and stdout are a connection to the host
  std::string name;               // of the last jump host, for messages
  std::string socket;             // of the connection to it
  std::shared_ptr<const void> held;  // as long as the connection is wanted
};

// To `to`, "[HOST]:PORT", through `jumps`, "a,b,c" as ssh -G says ProxyJump: over the connection of this process to the last of
// them. At each of them unknown keys are refused, or added, as at the target, and nothing is asked. Throws as TakeMasterPlace, and
// names the jump host.
JumpWay ThroughJumps(const std::string& jumps, const std::string& to, const Target& target,
                     TimePoint& deadline);

// Whether the connection to the jump host has gone. Then ThroughJumps makes another: as often as this, for one login.
bool HasEnded(const std::optional<JumpWay>& jump);
inline constexpr int kMostWays = 3;

// argv of an ssh that uses it, and that makes no connection where it has gone. `words`: further options. Whatever
// stands in ssh's configuration has no effect: no environment is sent, nothing is forwarded, no terminal is asked for.
std::vector<std::string> ThroughMaster(const std::string& socket, const Target& target,
                                       const std::vector<std::string>& words,
                                       const std::string& command);

// Ends the connections of this process, and removes their folder: before _exit(2), where no destructor runs.
void EndMasters();

}  // namespace tfdist::ssh
