// The keeper at work: its children, what it is told about them, and its end.
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/keeper/agent_restarts.h"
#include "agent/process/command.h"
#include "agent/process/handover.h"
#include "agent/process/note.h"
#include "agent/process/signals.h"
#include "base/clock.h"
#include "base/unique_fd.h"

namespace tfdist::agent {

// Listener and name lock are held for the agents, and never used here.
struct KeeperResources {
  UniqueFd notes_read;
  UniqueFd notes_write;
  UniqueFd listener;
  UniqueFd name_lock;
};

class KeeperLoop {
 public:
  KeeperLoop(Handover handover, KeeperResources resources);
  // Until nothing is left; returns the process's exit code.
  int Run();

 private:
  struct RunNames {
    std::string task;
    std::string run;
  };
  struct LostRun {
    RunNames names;
    int status = 0;  // of its holder, as waitpid(2) has it
  };
  // Once set, nothing is started any more.
  struct Ending {
    TimePoint kill_at;     // then everything gets SIGKILL
    TimePoint give_up_at;  // then the keeper ends, whatever is left
    bool agent_told = false;
  };

  void Wait();
  [[nodiscard]] TimePoint NextDeadline() const;
  void OnSignals();
  void OnCommands();
  void OnCommand(const Command& command);
  void OnTime();

  void StartAgent();
  pid_t SpawnAgent();
  void OnAgentEnd(int status);

  void StartHolder(const RunNames& names);
  [[nodiscard]] bool WasStarted(const RunNames& names) const;
  [[nodiscard]] bool HasTask(const std::string& task) const;
  void EndHolder(const RunNames& names, int signal);
  void WarnHolder(const RunNames& names);
  // 0: none works at it.
  [[nodiscard]] pid_t FindHolder(const RunNames& names) const;
  void OnHolderEnd(const RunNames& names, int status);
  // What no holder is there to write. Nothing of the run is left.
  void NoteEndOfLostRun(const RunNames& names, const std::string& error) const;
  void Tell(NoteKind kind, int value, const RunNames& names) const;
  [[nodiscard]] std::filesystem::path RunFolder(const RunNames& names) const;

  void Reap();
  // What is neither agent nor holder has come to the keeper from one of them, and is killed.
  void KillStrays();
  void ReportLostRuns();

  void BeginEnding(int holder_signal, std::chrono::milliseconds limit);
  void GoOnEnding();
  [[nodiscard]] bool NothingLeft() const;

  Handover handover_;
  KeeperResources resources_;
  Signals signals_;
  SystemClock clock_;

  pid_t agent_ = 0;    // 0: none runs
  UniqueFd commands_;  // of the agent that runs
  AgentRestarts restarts_;
  std::map<pid_t, RunNames> holders_;

  bool strays_possible_ = true;  // an agent that became this keeper may have had children
  TimePoint next_stray_pass_{};
  std::chrono::milliseconds stray_delay_{0};
  std::vector<LostRun> lost_;  // have their exit written once their strays are gone

  std::optional<Ending> ending_;
};

}  // namespace tfdist::agent
