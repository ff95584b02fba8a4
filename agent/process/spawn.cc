#include "agent/process/spawn.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "base/error.h"
#include "base/failpoint.h"

namespace tfdist::agent {
namespace {

// Not the path that it was started from: that may have been replaced meanwhile.
constexpr const char* kThisExecutable = "/proc/self/exe";

std::vector<char*> Argv(const char* role, const std::vector<std::string>& arguments) {
  std::vector<char*> argv{const_cast<char*>("tfdist-agent"), const_cast<char*>(role)};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  return argv;
}

// In the child: async-signal-safe calls only.
void TakeDescriptors(std::initializer_list<Inherited> descriptors) {
  for (const Inherited& descriptor : descriptors) {
    if (descriptor.from >= 0) dup2(descriptor.from, descriptor.to);  // not close-on-exec
  }
}

void EmptySignalMask() {
  sigset_t none;
  sigemptyset(&none);
  pthread_sigmask(SIG_SETMASK, &none, nullptr);
}

}  // namespace

UniqueFd DuplicateHigh(int fd) {
  UniqueFd high(fcntl(fd, F_DUPFD_CLOEXEC, kFirstOwnFd));
  if (!high.valid())
    throw Error(Phase::kInternal, WithErrno("cannot duplicate a descriptor", errno));
  return high;
}

pid_t SpawnRole(const char* role, const std::vector<std::string>& arguments,
                std::initializer_list<Inherited> descriptors, SignalMask mask) {
  const std::vector<char*> argv = Argv(role, arguments);
  const pid_t pid = fork();
  if (pid != 0) {
    FailPoint("process forked");
    return pid;
  }
  TakeDescriptors(descriptors);
  if (mask == SignalMask::kEmpty) EmptySignalMask();
  execve(kThisExecutable, argv.data(), environ);
  _exit(127);
}

void ExecRole(const char* executable, const char* role, const std::vector<std::string>& arguments) {
  execve(executable != nullptr ? executable : kThisExecutable, Argv(role, arguments).data(),
         environ);
}

void CloseDescriptors(int first, std::initializer_list<int> kept) {
  // No close_range(2) in Linux 4.18.
  DIR* folder = opendir("/proc/self/fd");
  if (folder == nullptr)
    throw Error(Phase::kInternal, WithErrno("cannot read /proc/self/fd", errno));
  std::vector<int> open;
  // One DIR, one thread: what readdir(3) calls safe.
  while (const dirent* entry = readdir(folder)) {
    open.push_back(atoi(entry->d_name));  // "." and ".." are 0
  }
  closedir(folder);
  for (const int fd : open) {
    if (fd >= first && std::ranges::find(kept, fd) == kept.end()) close(fd);
  }
}

}  // namespace tfdist::agent
