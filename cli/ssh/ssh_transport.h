// A host that is reached over SSH.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "cli/channel/byte_channel.h"
#include "cli/ssh/config/target.h"

namespace tfdist::ssh {

// Connects on first use, and again when the connection has broken. Channels may outlive the
// transport; those of one transport are used one at a time (reading from one takes in what arrives
// for all).
class SshTransport : public cli::Transport {
 public:
  std::unique_ptr<cli::ByteChannel> OpenShell(TimePoint& deadline) override;

  // The same for a connection to `port` of the host's 127.0.0.1.
  std::unique_ptr<cli::ByteChannel> OpenTunnel(int port, TimePoint& deadline);

 protected:
  SshTransport(std::string host, std::function<void(const std::string&)> on_note)
      : host_(std::move(host)), on_note_(std::move(on_note)) {}
  [[nodiscard]] const std::string& host() const { return host_; }

 private:
  // Their errors have no host.
  virtual std::unique_ptr<cli::ByteChannel> Shell(TimePoint& deadline) = 0;
  virtual std::unique_ptr<cli::ByteChannel> Tunnel(int port, TimePoint& deadline) = 0;

  template <typename Open>
  std::unique_ptr<cli::ByteChannel> WithHost(Open open);

  std::string host_;
  std::function<void(const std::string&)> on_note_;
};

// By libssh2, or by the user's ssh program, as `target` says. kAuto: by libssh2 where that can do all that ssh's configuration
// asks for and then gets in; where it cannot or does not, ssh has its try, in BatchMode, before an error is thrown, which is
// ssh's. on_note is told why. `host`: as the cluster file has it, for messages.
std::unique_ptr<SshTransport> MakeSshTransport(std::string host, Target target);

// HostName of ssh's configuration. Throws Error when ssh refuses that.
std::string HostNameOf(const Target& target);

}  // namespace tfdist::ssh
