#include "cli/ssh/libssh2/session.h"

#include <fmt/format.h>
#include <poll.h>

#include <utility>

#include "base/error.h"
#include "base/failures.h"
#include "cli/ssh/config/logins.h"
#include "cli/ssh/config/phase_deadline.h"
#include "cli/ssh/keys/known_hosts.h"
#include "cli/ssh/libssh2/authentication.h"
#include "cli/ssh/libssh2/channel.h"
#include "cli/ssh/libssh2/connection.h"
#include "cli/ssh/libssh2/dial.h"
#include "cli/ssh/libssh2/handshake.h"
#include "cli/ssh/libssh2/library_failure.h"
#include "cli/ssh/libssh2/resolve.h"

namespace tfdist::ssh {
namespace {

std::string WithText(std::string_view what, const std::string& text) {
  return text.empty() ? std::string(what) : fmt::format("{}: {}", what, text);
}

// `why`: what libssh2 cannot do; empty: nothing.
void RefuseBeyond(Phase phase, const std::string& why) {
  if (!why.empty()) throw LibraryFailure(phase, why, std::string(kUseOpenssh));
}

// A stream on which the host has begun to speak.
Stream Reach(const HostConfig& host, const Target& target, TimePoint deadline) {
  const TimePoint give_up = Within(target.limits.busy, deadline);
  for (int tries = 1;; ++tries) {
    Stream stream = Dial(host, target, deadline);
    Greeting greeting = AwaitGreeting(stream.fd.get(), Within(target.limits.banner, deadline));
    if (greeting.kind == Greeting::Kind::kSomething) return stream;
    if (greeting.text.empty()) greeting.text = JumpErrors(stream);
    if (greeting.kind == Greeting::Kind::kSilent) {
      throw Unreachable(Phase::kConnect,
                        WithText("it took the connection and then said nothing", greeting.text),
                        fmt::format("is it an sshd that listens on port {}?", host.port));
    }
    // A jump that fails does so for a reason that stays.
    const auto pause = PauseAfter(tries);
    if (stream.jump || SystemClock().Now() + pause > give_up) {
      throw Unreachable(Phase::kConnect,
                        WithText(fmt::format("it hung up before its SSH version, {} times", tries),
                                 greeting.text),
                        stream.jump ? "ssh to it by hand"
                                    : "its sshd may have too many logins at once (MaxStartups), or "
                                      "punish failed ones (PerSourcePenalties): wait some minutes");
    }
    poll(nullptr, 0, static_cast<int>(pause.count()));
  }
}

}  // namespace

Session Session::Open(const Target& target, TimePoint& deadline) {
  const auto step = [&](const char* name) {
    if (target.on_step) target.on_step(name);
  };
  step("ssh's configuration");
  const HostConfig host = ConfigOf(target, deadline);
  RefuseBeyond(Phase::kConnect, host.beyond);
  const KeyOffers keys = CollectKeys(host, target.limits, deadline);
  const KnownHosts known = KnownHosts::Load(host);
  if (target.program == Program::kAuto) {
    RefuseBeyond(Phase::kAuth, keys.beyond);
    RefuseBeyond(Phase::kHostKey, known.WhyBeyondLibrary());
  }
  step("wait for other logins");
  const LoginPlaces places = TakeLoginPlaces(host, target, deadline);
  step("connect");
  const auto connection = std::make_shared<Connection>(Reach(host, target, deadline));
  step("key exchange");
  Handshake(*connection, host.algorithms, known.KnownTypes(), target.limits, deadline);
  if (host.gateway.empty()) {
    known.CheckAddress(HostKeyBlob(*connection), PeerAddress(connection->fd()));
  }
  known.Check(HostKeyBlob(*connection));
  step("authentication");
  Authenticate(*connection, host, keys, target, deadline);
  step("shell");
  return {connection, target.limits};
}

std::unique_ptr<cli::ByteChannel> Session::OpenShell(TimePoint deadline) {
  return OpenShellChannel(connection_, Within(limits_.exec, deadline));
}

std::unique_ptr<cli::ByteChannel> Session::OpenTunnel(int port, TimePoint deadline) {
  return OpenTunnelChannel(connection_, port, Within(limits_.exec, deadline));
}

bool Session::broken() const { return connection_->broken(); }

}  // namespace tfdist::ssh
