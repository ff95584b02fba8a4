// How to reach a host, as the cluster file says it. Everything else comes from ssh's own
// configuration.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace tfdist::ssh {

// How long each step may take; the caller's deadline bounds them all together.
struct Limits {
  std::chrono::milliseconds config{60'000};  // ssh -G, beside hundreds of others
  std::chrono::milliseconds resolve{5'000};
  std::chrono::milliseconds tcp{11'000};
  std::chrono::milliseconds banner{60'000};  // its SSH version, which ssh waits for without a limit
  std::chrono::milliseconds key_exchange{20'000};
  // Its sshd may have to ask others for accounts and keys; it does not count against the host's deadline.
  std::chrono::milliseconds authentication{120'000};
  std::chrono::milliseconds exec{30'000};
  std::chrono::milliseconds agent{30'000};  // ssh-agent, to say what it holds
  // The same for a signature, for which it may ask its user.
  std::chrono::milliseconds signature{120'000};
  // An sshd that has too many logins going on (MaxStartups) drops new connections: how long to try
  // again.
  std::chrono::milliseconds busy{30'000};
};

// Who connects.
enum class Program {
  kAuto,  // libssh2 where it can do all that ssh's configuration asks for, else the user's ssh program
  kOpenssh,  // the user's ssh program
};

// What a connection is at.
struct Step {
  const char* name;  // a string literal
  std::string_view
      waits_for;    // what a line says of a host that takes long; a string literal; empty: nothing
  TimePoint until;  // as far as one knows as it begins
};

struct Target {
  std::string
      name;  // what ssh(1) would be given: a name, an address, an alias of its configuration
  std::string user;
  std::optional<int> port;
  std::string identity_file;
  std::filesystem::path config;  // as ssh -F; empty: the user's and the system's
  bool accept_new =
      false;            // adds the key of a host that is not known; a changed one is always refused
  bool strict = false;  // not even where ssh's configuration says StrictHostKeyChecking accept-new
  Program program = Program::kAuto;
  // Further channels to the same machine are wanted at once: they share a connection.
  bool shared = false;
  std::string jumps;   // ProxyJump instead of the configuration's; empty: as that says
  int jump_depth = 0;  // how many hosts are reached through it, one behind the other
  Limits limits;
  // Where connections of the last minute are remembered (config/refused_port.h); empty: nowhere.
  std::filesystem::path connections;
  // Told each step of a connection as it begins, on the thread that opens it; may be empty.
  std::function<void(const Step&)> on_step;
  // Whether others who would know say that the host is off: asked where it refuses connections, has been silent for 3 s, or has
  // not said its SSH version for 5 s, before it is tried for longer. Bounds its waits; may be empty.
  std::function<bool()> is_off;
  // Whether other hosts that were asked at the same time have answered: one that has not said its SSH version for 15 s is not
  // waited for then. May be empty.
  std::function<bool()> others_answered;
  // Nothing comes back from the host, or nobody listens there, and a firewall may be why: it is tried again within half a
  // minute. False where that is the less likely reason, as of a host that ran a job.
  bool waits_for_firewalls = true;
  // Told what the user should know of the connection, on any thread, and no more once the channel is open or has failed to
  // open; may be empty.
  std::function<void(const std::string&)> on_note;

  void Begin(const Step& step) const {
    if (on_step) on_step(step);
  }
};

}  // namespace tfdist::ssh
