#include "cli/ssh/config/jump_command.h"

#include <fmt/format.h>

#include "base/text.h"

namespace tfdist::ssh {
namespace {

// Each ssh program that expands the text halves its percent signs: `expansions` of them leave one.
std::string Percent(int expansions) { return std::string(size_t{1} << expansions, '%'); }

std::string AsProxyCommand(const std::vector<std::string>& argv) {
  std::string command;
  for (const std::string& word : argv) {
    if (!command.empty()) command.push_back(' ');
    command += ShellQuoted(word);
  }
  return command;
}

// `expansions`: how many ssh programs read it before it is run. What `jumps` has of % is for the first of them.
std::vector<std::string> Words(const std::string& jumps, const std::string& to,
                               const Target& target, int expansions) {
  const size_t comma = jumps.rfind(',');
  const bool several = comma != std::string::npos;
  const std::string last = several ? jumps.substr(comma + 1) : jumps;
  std::vector<std::string> argv = {
      "ssh",
      "-o",
      "BatchMode=yes",
      "-o",
      fmt::format("StrictHostKeyChecking={}", target.accept_new ? "accept-new" : "yes"),
      "-o",
      "GSSAPIDelegateCredentials=no"};
  if (!target.config.empty()) {
    std::string config = target.config.string();
    ReplaceAll(config, "%", Percent(expansions));
    argv.insert(argv.end(), {"-F", config});
  }
  if (several) {
    const std::string next = fmt::format("[{0}h]:{0}p", Percent(expansions));
    const auto before = Words(jumps.substr(0, comma), next, target, expansions + 1);
    argv.insert(argv.end(), {"-o", "ProxyCommand=" + AsProxyCommand(before)});
  }
  argv.insert(argv.end(), {"-W", to, "--", last.starts_with("ssh://") ? last : "ssh://" + last});
  return argv;
}

}  // namespace

std::vector<std::string> JumpCommand(const std::string& jumps, const std::string& to,
                                     const Target& target) {
  return Words(jumps, to, target, 0);
}

std::string JumpProxyCommand(const std::string& jumps, const Target& target) {
  return AsProxyCommand(Words(jumps, "[%h]:%p", target, 1));
}

std::vector<std::string> WithoutQuestions(const std::vector<std::string>& ssh) {
  // Before OpenSSH 8.4 it is the display alone that counts.
  std::vector<std::string> argv = {"env", "-u", "DISPLAY", "SSH_ASKPASS_REQUIRE=never"};
  argv.insert(argv.end(), ssh.begin(), ssh.end());
  return argv;
}

}  // namespace tfdist::ssh
