// A host that is reached over SSH.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "cli/channel/byte_channel.h"
#include "cli/ssh/config/step_watch.h"
#include "cli/ssh/config/target.h"

namespace tfdist::ssh {

class Session;

// By libssh2, or by the user's ssh program, as `target` says. kAuto: by libssh2 where that can do all that ssh's configuration
// asks for and then gets in; where it cannot or does not, ssh has its try, in BatchMode, before an error is thrown, which is
// ssh's. on_note is told why, and of each step that takes long.
// Connects on first use, and again when the connection has broken. Channels may outlive the
// transport; those of one transport are used one at a time (reading from one takes in what arrives
// for all).
class SshTransport : public cli::Transport {
 public:
  // `host`: as the cluster file has it, for messages.
  SshTransport(std::string host, Target target);
  SshTransport(const SshTransport&) = delete;
  SshTransport& operator=(const SshTransport&) = delete;
  ~SshTransport() override;

  std::unique_ptr<cli::ByteChannel> OpenShell(TimePoint& deadline) override;

  // The same for a connection to `port` of the host's 127.0.0.1.
  std::unique_ptr<cli::ByteChannel> OpenTunnel(int port, TimePoint& deadline);

 private:
  // A channel by libssh2, or else by ssh. Errors get the host.
  template <typename ByLibrary, typename ByProgram>
  std::unique_ptr<cli::ByteChannel> Open(ByLibrary by_library, ByProgram by_program,
                                         TimePoint& deadline);
  // Moves `deadline` as Session::Open.
  Session& Connected(TimePoint& deadline);

  const std::string host_;
  const std::function<void(const std::string&)> say_;  // may be empty
  StepWatch watch_;
  Target target_;
  std::unique_ptr<Session> session_;
};

// HostName of ssh's configuration. Throws Error when ssh refuses that.
std::string HostNameOf(const Target& target);

}  // namespace tfdist::ssh
