// A short command on a host: run to its end, with what it printed.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "cli/commands/sites.h"
#include "cli/link/host_command.h"

namespace tfdist::cli {

// `words` at `site`: in the environment and folder of its task, if it is one's.
HostCommand CommandAt(const Site& site, std::vector<std::string> words);

struct HostAnswer {
  int status = 0;      // as a shell has it
  std::string output;  // stdout and stderr, at most 16 MiB of it

  // The last line that is not empty, for a message.
  [[nodiscard]] std::string LastLine() const;
};

// Throws Error with the host: NothingThere, or LostConnection when the command has not ended within
// `limit` (the host ends it then).
HostAnswer AskHost(const Site& site, const SshOptions& ssh, std::vector<std::string> words,
                   std::chrono::seconds limit);

}  // namespace tfdist::cli
