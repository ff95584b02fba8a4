// A host that is reached over SSH.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cli/link/byte_channel.h"
#include "cli/ssh/session.h"
#include "cli/ssh/target.h"

namespace tfdist::ssh {

class SshTransport : public cli::Transport {
 public:
  // `host`: as the cluster file has it, for messages.
  SshTransport(std::string host, Target target)
      : host_(std::move(host)), target_(std::move(target)) {}

  // Connects on first use, and again when the connection has broken. Channels may outlive the
  // transport; those of one transport are used one at a time (reading from one takes in what
  // arrives for all).
  std::unique_ptr<cli::ByteChannel> OpenShell(TimePoint deadline) override;

  // The same for a connection to `port` of the host's 127.0.0.1.
  std::unique_ptr<cli::ByteChannel> OpenTunnel(int port, TimePoint deadline);

 private:
  Session& Connected(TimePoint deadline);
  template <typename Open>
  std::unique_ptr<cli::ByteChannel> WithHost(Open open);

  std::string host_;
  Target target_;
  std::optional<Session> session_;
};

}  // namespace tfdist::ssh
