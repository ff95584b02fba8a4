// Short commands on a host: each run to its end, with what it printed.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/channel/byte_channel.h"
#include "cli/find/sites.h"
#include "cli/link/host_command.h"
#include "cli/stream/interrupts.h"

namespace tfdist::cli {

// `words` at `site`: in the environment and folder of its task, if it is one's.
HostCommand CommandAt(const Site& site, std::vector<std::string> words);

struct HostAnswer {
  int status = 0;      // as a shell has it
  std::string output;  // stdout and stderr, at most 16 MiB of it

  // The last line that is not empty, for a message.
  [[nodiscard]] std::string LastLine() const;
};

// By Ctrl-C.
class TalkInterrupted : public Error {
 public:
  TalkInterrupted() : Error(Phase::kExec, "interrupted") {}
};

// Asks one host, over one connection: made with the first question, and again when it has broken.
// Belongs to one thread.
class HostTalk {
 public:
  // `is_off`: as ssh::Target's.
  HostTalk(Site site, SshOptions ssh, std::function<bool()> is_off = {});

  // From now on Ctrl-C ends a question. `interrupts` outlives this object.
  void Heed(Interrupts& interrupts) { interrupts_ = &interrupts; }
  // Throws Error with the host: NothingThere, or LostConnection when the command has not ended within
  // `limit` (the host ends it then). Throws TalkInterrupted.
  HostAnswer Ask(std::vector<std::string> words, std::chrono::seconds limit);
  [[nodiscard]] const Site& site() const { return site_; }

 private:
  HostAnswer AskOnce(std::vector<std::string> words, std::chrono::seconds limit);
  std::unique_ptr<ByteChannel> OpenShell(TimePoint& deadline);

  Site site_;
  SshOptions ssh_;
  std::unique_ptr<Transport> transport_;
  bool has_answered_ = false;
  Interrupts* interrupts_ = nullptr;
};

}  // namespace tfdist::cli
