#include "agent/process/signals.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.h"

namespace tfdist::agent {

Signals::Signals(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  if (pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0) {
    fd_.Reset(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  }
  if (!fd_.valid()) throw Error(Phase::kInternal, WithErrno("cannot wait for signals", errno));
}

std::vector<int> Signals::Take() {
  std::vector<int> taken;
  signalfd_siginfo info{};
  while (read(fd_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    taken.push_back(static_cast<int>(info.ssi_signo));
  }
  return taken;
}

}  // namespace tfdist::agent
