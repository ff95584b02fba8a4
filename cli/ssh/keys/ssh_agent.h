// The user's ssh-agent: lists its keys, signs with them. draft-ietf-sshm-ssh-agent. libssh2's own
// client waits without a limit for an agent that asks its user; this one has deadlines.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/unique_fd.h"

namespace tfdist::ssh {

struct AgentKey {
  std::string blob;
  std::string comment;
};

class SshAgent {
 public:
  // nullopt when nobody listens at `socket_path`.
  static std::optional<SshAgent> Connect(const std::string& socket_path);

  // Empty when the agent does not answer properly in time.
  std::vector<AgentKey> Keys(TimePoint deadline);

  // The signature's bytes, by `algorithm` ("rsa-sha2-512", else the key's own type); nullopt when
  // the agent refuses, does not answer in time, or signs by another algorithm.
  std::optional<std::string> Sign(std::string_view blob, std::string_view data,
                                  std::string_view algorithm, TimePoint deadline);

 private:
  explicit SshAgent(UniqueFd fd) : fd_(std::move(fd)) {}
  std::optional<std::string> Ask(std::string_view request, TimePoint deadline);
  bool Send(std::string_view bytes, TimePoint deadline);
  std::optional<std::string> Receive(size_t size, TimePoint deadline);

  UniqueFd fd_;
};

}  // namespace tfdist::ssh
