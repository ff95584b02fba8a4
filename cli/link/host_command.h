// One command on a host: what it prints and how it ends. No agent is needed on the host.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "cli/channel/byte_channel.h"
#include "cli/link/bootstrap.h"

namespace tfdist::cli {

struct HostCommand {
  std::vector<std::string> words;  // the program and its arguments; no shell reads them
  bool expands_home = false;       // "~/x" among them is in the home folder of the host
  // After this time the host itself ends the command, for a connection may be cut; 0: never.
  std::chrono::seconds limit{0};
  // To run in the environment and folder of a job's task; empty: in those of the account.
  std::string task = {};
  // Without a task: `words` are a role of the job's own agent, and its arguments.
  std::string job = {};
  int slot = 0;
  std::string base = {};  // tfdist's folder on the host
  KnownBase known = {};
};

struct HostCommandEnd {
  int status = 0;  // as a shell has it: 128 and the number of the signal that ended it
  // Processes that could not be ended, for people: "4711 (sudo), 4712 (sleep)"; empty: none.
  std::string left;
  // What runs since then and may be the command's; or what /proc hides, where the command was ended.
  std::string may_be_left;
};

// What the host says of the end: "0 |", or "137 4711 (sudo)|4712 (ssh-agent)" with what is left, and what may be. Throws
// ProtocolError where it is not so.
HostCommandEnd ParseCommandEnd(std::string_view text);

// A command that runs. Its stdin is empty; its stdout and stderr come in the order in which they
// were written. What it leaves in the background is ended with it, and so is all of it when the channel is closed: what is
// in its session, descends from it, or has its mark in the environment. Belongs to one thread.
class RunningCommand {
 public:
  // Starts it through a fresh channel of Transport::OpenShell. Throws Error without a host:
  // NothingThere where the host has no such job, OutOfSight, LostConnection.
  RunningCommand(std::unique_ptr<ByteChannel> channel, const HostCommand& command,
                 TimePoint deadline);

  // Waits until `deadline` for output, and appends it to `out`; says how the command has ended once
  // it has, and everything is in `out`. Throws LostConnection when the host hangs up before.
  std::optional<HostCommandEnd> Read(std::string& out, TimePoint deadline);

  enum class Ending { kTerm, kKill };
  // Throws LostConnection when the host does not take the request by `deadline`.
  void Ask(Ending ending, TimePoint deadline);

 private:
  std::optional<HostCommandEnd> TakeOutput(std::string& out);
  bool HasBegun();
  // `words`: of the shell, in the place of the command's output.
  [[noreturn]] void ThrowAsNotBegun(std::string_view words) const;

  std::unique_ptr<ByteChannel> channel_;
  std::string begin_mark_;  // before the output
  bool has_begun_ = false;
  std::string mark_;    // what only the script can print: the output's end
  std::string buffer_;  // read, not yet given away: it may be the beginning of the mark
};

}  // namespace tfdist::cli
