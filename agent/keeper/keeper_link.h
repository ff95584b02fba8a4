// The agent's end of its connection to the keeper.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "agent/process/handover.h"
#include "agent/process/note.h"
#include "base/unique_fd.h"

namespace tfdist::agent {

// Everything here is non-blocking. One thread; the orders may come from another one than the notes.
class KeeperLink {
 public:
  // The role `agent`; `arguments` are what is behind the role's name. Takes over the inherited
  // descriptors and makes them close-on-exec. Throws Error(kStart) when this process was not
  // started by a keeper.
  explicit KeeperLink(const std::vector<std::string>& arguments);

  [[nodiscard]] const Handover& handover() const { return handover_; }

  // Orders. `task` and `run` are names of folders. False: not taken, as the keeper is gone or too
  // busy (try again later). Each may be repeated without harm: a run is started once at most, and
  // to stop what is over does nothing. StartHolder while an earlier run's holder still works is
  // refused (a note says so).
  [[nodiscard]] bool StartHolder(std::string_view task, std::string_view run);
  [[nodiscard]] bool StopHolder(std::string_view task, std::string_view run);  // TERM, grace, KILL
  [[nodiscard]] bool KillHolder(std::string_view task, std::string_view run);  // KILL, now
  // The task gets the warning signal of its RunSpec, once.
  [[nodiscard]] bool WarnHolder(std::string_view task, std::string_view run);
  // Ends every task gracefully, then this agent (SIGTERM), then the keeper; what is left at `limit`
  // is killed. An agent that has stopped its tasks itself just exits with kAgentJobOver.
  [[nodiscard]] bool Quit(std::chrono::milliseconds limit);

  // For poll(2): readable when there are notes.
  [[nodiscard]] int notes_fd() const { return notes_.get(); }
  [[nodiscard]] std::vector<Note> ReadNotes() { return ReceiveNotes(notes_.get()); }

  // For poll(2): readable when the keeper is gone, and only then.
  [[nodiscard]] int keeper_fd() const { return commands_.get(); }
  [[nodiscard]] bool KeeperGone() const;
  // The answer to that: this process becomes the keeper, and starts a new agent whose handover says
  // `keeper_lost`. Listener, name lock and notes go with it, threads end. Holders of the old keeper
  // are ending their tasks by themselves; their notes still arrive. Throws Error(kInternal) when it
  // cannot.
  [[noreturn]] void BecomeKeeper();

  // -1 where there is none. Borrowed: they stay open for a later keeper.
  [[nodiscard]] int listener_fd() const { return listener_.get(); }
  [[nodiscard]] int name_lock_fd() const { return name_lock_.get(); }

 private:
  // One that was stopped (SIGSTOP) reads no order to end something.
  void LetKeeperGoOn() const;

  Handover handover_;
  pid_t keeper_ = getppid();
  UniqueFd commands_;
  UniqueFd notes_;
  UniqueFd listener_;
  UniqueFd name_lock_;
};

}  // namespace tfdist::agent
