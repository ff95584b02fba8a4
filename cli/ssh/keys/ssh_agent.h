// The user's ssh-agent: lists its keys, signs with them. draft-ietf-sshm-ssh-agent. libssh2's own
// client waits without a limit for an agent that asks its user; this one has deadlines.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "cli/ssh/config/target.h"

namespace tfdist::ssh {

struct AgentKey {
  std::string blob;
};

struct Signature {
  enum class Kind {
    kMade,
    kRefused,  // its user said no, or the agent would not ask
    kBound,  // refused, as the key is bound to hosts: ssh can say which host it is, and libssh2 cannot
    kSilent,  // no answer in time: its user may be asked still
    kNone,    // nobody listens there, or nothing that makes sense comes back
  };
  Kind kind = Kind::kNone;
  std::string bytes;
};

// The keys in an agent's answer; nullopt where it is none that lists keys.
std::optional<std::vector<AgentKey>> KeysInAnswer(std::string_view answer);
// kMade, kRefused or, where nothing makes sense, kNone.
Signature SignatureInAnswer(std::string_view answer, std::string_view algorithm);

class SshAgent {
 public:
  // nullopt when nobody listens at `socket_path`, or the agent has no room for us until `deadline`.
  static std::optional<SshAgent> Connect(const std::string& socket_path, TimePoint deadline);

  // nullopt when the agent does not answer properly in time.
  std::optional<std::vector<AgentKey>> Keys(TimePoint deadline);

  // Called where a signature takes longer than a moment.
  void SetOnSlow(std::function<void()> on_slow) { on_slow_ = std::move(on_slow); }

  // By `algorithm`: "rsa-sha2-512", else the key's own type.
  Signature Sign(std::string_view blob, std::string_view data, std::string_view algorithm,
                 TimePoint deadline);

  // Says that the connection is for logging in to a host with a key that nobody has (session-bind@openssh.com): from now on
  // Keys() lacks those that are bound to hosts (ssh-add -h). False: the agent knows of no such thing.
  bool BindToNoHost(TimePoint deadline);

 private:
  explicit SshAgent(UniqueFd fd) : fd_(std::move(fd)) {}
  std::optional<std::string> Ask(std::string_view request, TimePoint deadline);
  bool Send(std::string_view bytes, TimePoint deadline);
  std::optional<std::string> Receive(size_t size, TimePoint deadline);

  UniqueFd fd_;
  std::function<void()> on_slow_;
};

inline constexpr std::string_view kWaitsForAgent =
    "ssh-agent has been asked to sign, and is waited for";

// The remedy where it does not sign.
inline constexpr std::string_view kAskTheAgent =
    "the agent asks and nobody answers (ssh-add -c), or the key is bound to other hosts (ssh-add "
    "-h): answer it, or ssh-add the key anew";

// The keys of the agent at `socket_path`, of a few seconds ago where somebody has asked: many hosts are reached within
// moments. Empty where there is no agent, or it does not answer. `deadline` is moved by the time that the agent took.
std::vector<AgentKey> AgentKeysAt(const std::string& socket_path, const Limits& limits,
                                  TimePoint& deadline);

// SshAgent::Sign of an agent that is asked by one login at a time: a smartcard signs one by one, and some agents take few
// connections. `deadline` is moved by the wait and by the time that the agent took; `on_step` is told of it, `on_note` where
// it is long.
Signature SignByAgentAt(const std::string& socket_path, std::string_view blob,
                        std::string_view data, std::string_view algorithm, const Target& target,
                        TimePoint& deadline);

}  // namespace tfdist::ssh
