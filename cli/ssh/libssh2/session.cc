#include "cli/ssh/libssh2/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/error.h"
#include "cli/ssh/config/library_failure.h"
#include "cli/ssh/config/logins.h"
#include "cli/ssh/config/phase_deadline.h"
#include "cli/ssh/config/refused_port.h"
#include "cli/ssh/config/resolve.h"
#include "cli/ssh/keys/known_hosts.h"
#include "cli/ssh/libssh2/authentication.h"
#include "cli/ssh/libssh2/channel.h"
#include "cli/ssh/libssh2/connection.h"
#include "cli/ssh/libssh2/dial.h"
#include "cli/ssh/libssh2/handshake.h"
#include "cli/ssh/openssh/master_end.h"
#include "cli/ssh/openssh/openssh_masters.h"

namespace tfdist::ssh {
namespace {

// `why`: what libssh2 cannot do; empty: nothing.
void RefuseBeyond(Phase phase, const std::string& why) {
  if (!why.empty()) throw LibraryFailure(phase, why);
}

// Before others are asked whether the host is off.
constexpr std::chrono::seconds kFirstLook{3};

// Again where a firewall may count connections.
UniqueFd DialPatiently(const HostConfig& host, const Target& target, TimePoint& deadline) {
  RefusedPort port(target, host);
  TimePoint give_up = deadline;
  Limits limits = target.limits;
  if (target.is_off) limits.tcp = std::min<std::chrono::milliseconds>(limits.tcp, kFirstLook);
  while (true) {
    target.Begin({"connect", kWaitsForConnection, Within(limits.tcp, deadline)});
    try {
      UniqueFd fd = DialTcp(host.host_name, host.port, limits, deadline);
      RememberConnection(target, host);
      return fd;
    } catch (const ConnectionRefused&) {
      if (!port.WaitAfterRefusal(deadline, give_up)) throw;
    } catch (const NoAnswer&) {
      const bool was_short = limits.tcp < target.limits.tcp;
      limits = target.limits;
      if (was_short && !target.is_off()) continue;
      if (was_short || !port.WaitAfterSilence(deadline, give_up)) throw;
    }
  }
}

Stream Connect(const HostConfig& host, const std::optional<JumpWay>& jump, const Target& target,
               TimePoint& deadline) {
  return jump ? DialThrough(*jump) : Stream(DialPatiently(host, target, deadline));
}

}  // namespace

Session Session::Open(const Target& given, TimePoint& deadline) {
  given.Begin({"ssh's configuration", kWaitsForConfig, Within(given.limits.config, deadline)});
  const HostConfig host = ConfigOf(given, deadline);
  const Target target = WithTimeToConnect(given, host, deadline);
  if (IsListenedTo(host.control_path)) {
    RefuseBeyond(Phase::kConnect, "your own connection is open (ControlPath)");
  }
  RefuseBeyond(Phase::kConnect, host.beyond);
  const KeyOffers keys = CollectKeys(host, target.limits, deadline);
  RefuseBeyond(Phase::kAuth, keys.beyond);
  const KnownHosts known = KnownHosts::Load(host);
  RefuseBeyond(Phase::kHostKey, known.WhyBeyondLibrary());
  // Before this login has a place among the others, as that to the jump host needs one, too.
  std::optional<JumpWay> jump;
  if (!host.proxy_jump.empty()) {
    jump = ThroughJumps(host.proxy_jump, fmt::format("[{}]:{}", host.host_name, host.port), target,
                        deadline);
  }
  target.Begin({"wait for other logins", kWaitsForTurn, deadline});
  const LoginPlaces places = TakeLoginPlaces(host, target, deadline);
  auto connection = std::make_shared<Connection>(Connect(host, jump, target, deadline));
  Handshake(*connection, host.algorithms, known.KnownTypes(), target, deadline);
  const std::string key = HostKeyBlob(*connection);
  RefuseBeyond(Phase::kHostKey, known.WhyNotKnown(key, jump ? "" : PeerAddress(connection->fd())));
  Authenticate(*connection, host, keys, target, deadline);
  target.Begin({"shell", kWaitsForShell, Within(target.limits.exec, deadline)});
  return {std::move(connection), target.limits};
}

std::unique_ptr<cli::ByteChannel> Session::OpenShell(TimePoint deadline) {
  return OpenShellChannel(connection_, Within(limits_.exec, deadline));
}

std::unique_ptr<cli::ByteChannel> Session::OpenTunnel(int port, TimePoint deadline) {
  return OpenTunnelChannel(connection_, port, Within(limits_.exec, deadline));
}

bool Session::broken() const { return connection_->broken(); }

}  // namespace tfdist::ssh
