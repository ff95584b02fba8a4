// A host that is this machine: /bin/sh as a child process instead of an SSH channel.
#pragma once

#include <memory>
#include <string>

#include "cli/channel/byte_channel.h"

namespace tfdist::cli {

class LocalTransport : public Transport {
 public:
  // `host` as the user wrote it, for messages; empty: errors carry no host.
  explicit LocalTransport(std::string host = {}) : host_(std::move(host)) {}

  // The shell runs in a session of its own with this process's environment and working folder. When
  // the channel is destroyed, the shell's stdin ends. Like sshd, this does not kill it.
  std::unique_ptr<ByteChannel> OpenShell(TimePoint& deadline) override;

 private:
  std::string host_;
};

}  // namespace tfdist::cli
