#include "cli/ssh/libssh2/session.h"

#include <fmt/format.h>
#include <poll.h>

#include <optional>
#include <utility>

#include "base/error.h"
#include "base/failures.h"
#include "cli/ssh/config/logins.h"
#include "cli/ssh/config/phase_deadline.h"
#include "cli/ssh/config/refused_port.h"
#include "cli/ssh/keys/known_hosts.h"
#include "cli/ssh/libssh2/authentication.h"
#include "cli/ssh/libssh2/channel.h"
#include "cli/ssh/libssh2/connection.h"
#include "cli/ssh/libssh2/dial.h"
#include "cli/ssh/libssh2/handshake.h"
#include "cli/ssh/libssh2/library_failure.h"
#include "cli/ssh/libssh2/resolve.h"
#include "cli/ssh/openssh/master_end.h"
#include "cli/ssh/openssh/openssh_masters.h"

namespace tfdist::ssh {
namespace {

// Of a host that has too much to do.
constexpr int kHandshakes = 3;

std::string WithText(std::string_view what, const std::string& text) {
  return text.empty() ? std::string(what) : fmt::format("{}: {}", what, text);
}

// `why`: what libssh2 cannot do; empty: nothing.
void RefuseBeyond(Phase phase, const std::string& why) {
  if (!why.empty()) throw LibraryFailure(phase, why, std::string(kUseOpenssh));
}

// How the host is reached, and for how long it is tried.
struct Way {
  const HostConfig& host;
  const std::optional<JumpWay>& jump;
  const Target& target;
  TimePoint& deadline;
  TimePoint give_up = Within(target.limits.busy, deadline);
};

// Before others are asked whether the host is off.
constexpr std::chrono::seconds kFirstLook{3};

// Again where a firewall may count connections.
Stream DialPatiently(Way& way) {
  RefusedPort port(way.target, way.host);
  Limits limits = way.target.limits;
  if (way.target.is_off) limits.tcp = std::min<std::chrono::milliseconds>(limits.tcp, kFirstLook);
  while (true) {
    try {
      Stream stream = Dial(way.host, way.jump, limits, way.deadline);
      RememberConnection(way.target, way.host);
      return stream;
    } catch (const ConnectionRefused&) {
      if (!port.WaitAfterRefusal(way.deadline, way.give_up)) throw;
    } catch (const NoAnswer&) {
      const bool was_short = limits.tcp < way.target.limits.tcp;
      limits = way.target.limits;
      if (was_short && !way.target.is_off()) continue;
      if (was_short || !port.WaitAfterSilence(way.deadline, way.give_up)) throw;
    }
  }
}

Greeting AwaitGreetingOf(Way& way, Stream& stream) {
  const Limits& limits = way.target.limits;
  const auto wait = [&](std::chrono::milliseconds limit) {
    return AwaitGreeting(stream, Within(std::min(limit, limits.banner), way.deadline));
  };
  Greeting greeting = wait(kVersionPatience);
  const bool is_silent = greeting.kind == Greeting::Kind::kSilent;
  if (is_silent && way.jump && !HasReached(stream)) greeting = wait(kUnknownWay - kVersionPatience);
  return greeting;
}

// A stream on which the host has begun to speak, or to which it is connected: some wait for our version first.
Stream Reach(Way& way) {
  for (int tries = 1;; ++tries) {
    Stream stream = DialPatiently(way);
    const Greeting greeting = AwaitGreetingOf(way, stream);
    if (greeting.kind == Greeting::Kind::kSomething) return stream;
    const std::string on_the_way = JumpErrors(stream);
    if (greeting.kind == Greeting::Kind::kSilent) {
      if (way.jump && !HasReached(stream)) {
        throw LibraryBreak(Phase::kConnect,
                           WithText(fmt::format("its jump host {} has not reached it within {} s",
                                                way.jump->name, kUnknownWay.count()),
                                    on_the_way),
                           "is it up, and does its sshd listen there (Port in ~/.ssh/config)?");
      }
      if (way.target.on_note) way.target.on_note(std::string(kWaitsForVersion));
      return stream;
    }
    if (way.jump && !on_the_way.empty()) {
      throw Unreachable(
          Phase::kConnect,
          fmt::format("its jump host {} gives no way to it: {}", way.jump->name, on_the_way),
          "is it up, and may the jump host connect to it (AllowTcpForwarding in its "
          "sshd_config)?");
    }
    const auto pause = PauseAfter(tries);
    // A ProxyCommand that fails does so for a reason that stays.
    const bool stays = stream.jump && !way.jump;
    if (stays || SystemClock().Now() + pause > way.give_up) {
      throw Unreachable(Phase::kConnect,
                        WithText(fmt::format("it hung up before its SSH version, {} times", tries),
                                 greeting.text.empty() ? on_the_way : greeting.text),
                        stays ? "ssh to it by hand"
                              : "its sshd may have too many logins at once (MaxStartups), or "
                                "punish failed ones (PerSourcePenalties): wait some minutes");
    }
    poll(nullptr, 0, static_cast<int>(pause.count()));
  }
}

// With keys exchanged: again where the host is so busy that this takes too long, or breaks.
std::shared_ptr<Connection> Meet(Way& way, const std::vector<std::string>& key_types) {
  const auto step = [&](const char* name) {
    if (way.target.on_step) way.target.on_step(name);
  };
  Limits limits = way.target.limits;
  for (int tries = 1;; ++tries) {
    step("connect");
    auto connection = std::make_shared<Connection>(Reach(way));
    step("key exchange");
    try {
      Handshake(*connection, way.host.algorithms, key_types, limits, way.deadline);
      return connection;
    } catch (const NoVersion&) {
      throw;
    } catch (const Unreachable&) {
      if (tries == kHandshakes || SystemClock().Now() >= way.deadline) throw;
    }
    limits.key_exchange *= 2;
    poll(nullptr, 0, static_cast<int>(PauseAfter(tries).count()));
  }
}

// Before a login to the host has a place, as that to the jump host needs one, too.
std::optional<JumpWay> JumpTo(const HostConfig& host, const Target& target, TimePoint& deadline) {
  if (host.proxy_jump.empty()) return std::nullopt;
  return ThroughJumps(host.proxy_jump, fmt::format("[{}]:{}", host.host_name, host.port), target,
                      deadline);
}

// One login.
std::shared_ptr<Connection> LogIn(const HostConfig& host, const std::optional<JumpWay>& jump,
                                  const KeyOffers& keys, const KnownHosts& known,
                                  const Target& target, TimePoint& deadline) {
  const auto step = [&](const char* name) {
    if (target.on_step) target.on_step(name);
  };
  step("wait for other logins");
  const LoginPlaces places = TakeLoginPlaces(host, target, deadline);
  Way way{host, jump, target, deadline};
  auto connection = Meet(way, known.KnownTypes());
  if (host.gateway.empty()) {
    known.CheckAddress(HostKeyBlob(*connection), PeerAddress(connection->fd()));
  }
  known.Check(HostKeyBlob(*connection));
  step("authentication");
  Authenticate(*connection, host, keys, target, deadline);
  step("shell");
  return connection;
}

}  // namespace

Session Session::Open(const Target& given, TimePoint& deadline) {
  if (given.on_step) given.on_step("ssh's configuration");
  const HostConfig host = ConfigOf(given, deadline);
  const Target target = WithTimeToConnect(given, host, deadline);
  if (IsListenedTo(host.control_path)) {
    throw LibraryFailure(Phase::kConnect, "your own connection is open (ControlPath)");
  }
  RefuseBeyond(Phase::kConnect, host.beyond);
  const KeyOffers keys = CollectKeys(host, target.limits, deadline);
  const KnownHosts known = KnownHosts::Load(host);
  if (target.program == Program::kAuto) {
    RefuseBeyond(Phase::kAuth, keys.beyond);
    RefuseBeyond(Phase::kHostKey, known.WhyBeyondLibrary());
  }
  for (int tries = 1;; ++tries) {
    const std::optional<JumpWay> jump = JumpTo(host, target, deadline);
    try {
      return {LogIn(host, jump, keys, known, target, deadline), target.limits};
    } catch (const Error&) {
      if (tries == kMostWays || !HasEnded(jump)) throw;
    }
  }
}

std::unique_ptr<cli::ByteChannel> Session::OpenShell(TimePoint deadline) {
  return OpenShellChannel(connection_, Within(limits_.exec, deadline));
}

std::unique_ptr<cli::ByteChannel> Session::OpenTunnel(int port, TimePoint deadline) {
  return OpenTunnelChannel(connection_, port, Within(limits_.exec, deadline));
}

bool Session::HasHadChannels() const {
  return connection_.use_count() > 1 || connection_->has_closed_channels();
}

bool Session::broken() const { return connection_->broken(); }

}  // namespace tfdist::ssh
