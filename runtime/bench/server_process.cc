#include "runtime/bench/server_process.h"

#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <stdexcept>

#include "base/unique_fd.h"

namespace tfdist::runtime::bench {
namespace {

[[noreturn]] void Serve(const ServerOptions& options) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  try {
    const UniqueFd never(eventfd(0, EFD_CLOEXEC));
    Server(options).Run(never.get());
    _exit(0);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "the measured server: %s\n", error.what());
    _exit(1);
  }
}

}  // namespace

ServerProcess::ServerProcess(const ServerOptions& options) {
  std::fflush(stdout);  // else the child writes it once more
  pid_ = fork();
  if (pid_ < 0) throw std::runtime_error("fork");
  if (pid_ == 0) Serve(options);
}

ServerProcess::~ServerProcess() {
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

}  // namespace tfdist::runtime::bench
