// Why ssh(1) did not log in, from what it has said on its stderr.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/error.h"
#include "cli/ssh/config/host_config.h"

namespace tfdist::ssh {

struct LoginFailure {
  enum class Kind {
    kRefused,      // by the host, or by its key: another try would bring the same
    kUnreachable,  // another try may help, later
    kRefusedPort,  // the same, of a host that is there: nobody listens, or a firewall counts connections
    kSilentPort,    // the same, where nothing comes back
    kSlowLogin,     // the host has begun the login, and says nothing: it may need more time
    kSlowExchange,  // the same in the key exchange
    kBusy,          // the host hung up before its SSH version: another try may help soon
  };
  Kind kind = Kind::kRefused;
  Phase phase = Phase::kConnect;
  std::string cause;
  std::string remedy;
  bool is_on_the_way = false;  // the program that connects ssh to the host has given no way
  // kBusy: the host itself gave no reason, as one that has too many logins does.
  bool is_wordless = false;
};

// `said`: at LogLevel DEBUG1, which has ssh's steps too. `name`: what ssh was given, `host`: what that means. The texts are those of
// OpenSSH 9.2, and of sshd 9.8; what is worded otherwise is shown as it is.
LoginFailure ExplainLogin(std::string_view said, const std::string& name, const HostConfig& host);

// `failure`: of a host that was asked for a while and gave no reason.
LoginFailure GivenUpWordless(LoginFailure failure);

// What the host has said before the login (a banner, why it lets nobody in), on one line.
std::string WordsOfHost(std::string_view said);

// Without what ssh tells of its steps, at LogLevel DEBUG1.
std::string WithoutSteps(std::string_view said);

// What the host has answered to the wish of an `ssh -v` for a session on a connection (ControlMaster); neither: nothing yet.
bool WasOpened(std::string_view said);
bool WasRefused(std::string_view said);
// Whether there is anything that -v adds.
bool TellsSteps(std::string_view said);

// Where a login stands before the host's SSH version.
enum class Reached { kNothing, kConnecting, kConnected, kVersion };
Reached ReachedOf(std::string_view said);

// Nothing has come back from the host within `limit`.
LoginFailure ExplainNoAnswer(std::string_view said, std::chrono::milliseconds limit);

// Whether ssh has asked its agent for a signature, and nothing has come of that yet.
bool WaitsForAgent(std::string_view said);

// ssh has not logged in within `limit`.
LoginFailure ExplainTimeout(std::string_view said, std::chrono::milliseconds limit);

// kSlowLogin.
LoginFailure SlowLogin();

// Throws Error or Unreachable.
[[noreturn]] void Throw(const LoginFailure& failure);

}  // namespace tfdist::ssh
