// A child process on this machine: /bin/sh for a local host, ssh and ssh-keygen as helpers.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

namespace tfdist::cli {

// Descriptors that become the child's stdin, stdout and stderr; borrowed.
struct ChildStreams {
  int in = -1;
  int out = -1;
  int err = -1;
};

// Owns one child until it is reaped. The destructor does not wait for a running child: tell it to
// end first (close its stdin, or Kill). It is then reaped in the background.
class Child {
 public:
  // Runs argv[0] (looked up in PATH) in a session of its own, with this process's environment,
  // default signals and no other descriptor. Throws Error(kExec) when it cannot be executed.
  static Child Spawn(const std::vector<std::string>& argv, const ChildStreams& streams);

  Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, 0)) {}
  Child& operator=(Child&&) = delete;
  ~Child();

  // SIGKILL to the child and what it has started in its process group.
  void Kill();
  // Its wait(2) status. Blocks: for a child that has closed its output or was killed.
  int Wait();

 private:
  explicit Child(pid_t pid) : pid_(pid) {}
  pid_t pid_;  // 0 once reaped: the number may belong to someone else by then
};

}  // namespace tfdist::cli
