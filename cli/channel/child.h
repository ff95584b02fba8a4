// A child process on this machine that is spoken with while it runs: /bin/sh for a local host, ssh
// for a jump. base/subprocess.h is for helpers that run to their end. That one kills its program
// and the whole group at a deadline, and takes no input. This one has a session of its own and the
// caller's streams, and may outlive its owner.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/spawn.h"

namespace tfdist::cli {

// Owns one child until it is reaped. The destructor does not wait for a running child: tell it to
// end first (close its stdin, or Kill). It is then reaped in the background.
class Child {
 public:
  // Runs argv[0] (looked up in PATH) in a session of its own, with this process's environment,
  // default signals and no other descriptor. `kept` lives until the child has been reaped, on
  // whatever thread. Throws Error(kExec) when it cannot be executed.
  static Child Spawn(const std::vector<std::string>& argv, const SpawnStreams& streams,
                     std::shared_ptr<const void> kept = nullptr);

  Child(Child&& other) noexcept
      : pid_(std::exchange(other.pid_, 0)), kept_(std::move(other.kept_)) {}
  Child& operator=(Child&&) = delete;
  ~Child();

  // SIGKILL to the child and what it has started in its process group.
  void Kill();
  // SIGHUP, or SIGTERM, to the same, if it runs.
  void HangUp();
  void Terminate();
  // The kernel ends its group (SIGIO) once nobody has the other end of this pipe any more, as this process may be killed. The
  // child holds this end, and nothing is written to it.
  void TieTo(int pipe_end) const;
  // Its wait(2) status. Blocks: for a child that has closed its output or was killed.
  int Wait();
  // The same once it has ended; nullopt while it runs.
  std::optional<int> TryWait();

 private:
  Child(pid_t pid, std::shared_ptr<const void> kept) : pid_(pid), kept_(std::move(kept)) {}
  pid_t pid_;  // 0 once reaped: the number may belong to someone else by then
  std::shared_ptr<const void> kept_;
};

}  // namespace tfdist::cli
