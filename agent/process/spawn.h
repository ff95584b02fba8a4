// How keeper and agent start this very executable in another role, with nothing inherited but what
// is named.
#pragma once

#include <sys/types.h>

#include <initializer_list>
#include <string>
#include <vector>

#include "base/unique_fd.h"

namespace tfdist::agent {

// Descriptor `from` of this process is descriptor `to` of the new one; -1 means none.
struct Inherited {
  int from;
  int to;
};

// Above every `to`: so that handing one descriptor over never overwrites another.
inline constexpr int kFirstOwnFd = 10;

// The same file at a number from kFirstOwnFd on, close-on-exec. Throws Error(kInternal).
UniqueFd DuplicateHigh(int fd);

// kKept: what is blocked, and pending, reaches a role that waits for it.
enum class SignalMask { kEmpty, kKept };

// Forks and executes. Returns the child's pid, or -1 with errno. Only from a single-threaded
// process: a child of a thread dies with the thread where PR_SET_PDEATHSIG is set.
pid_t SpawnRole(const char* role, const std::vector<std::string>& arguments,
                std::initializer_list<Inherited> descriptors, SignalMask mask);

// Becomes `role`. Returns only on failure, with errno. `executable` nullptr: this very one.
void ExecRole(const char* executable, const char* role, const std::vector<std::string>& arguments);

// Closes every descriptor from `first` on that is not in `kept`.
void CloseDescriptors(int first, std::initializer_list<int> kept);

}  // namespace tfdist::agent
