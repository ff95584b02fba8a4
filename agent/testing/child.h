// A process for a test to find, end or wait for.
#pragma once

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <vector>

namespace tfdist::agent {

// Has executed its program when the constructor returns; is ended with the test.
class Child {
 public:
  // Executes `argv` with `env`, in a session of its own or in ours.
  Child(std::vector<const char*> argv, std::vector<const char*> env, bool own_session = false) {
    argv.push_back(nullptr);
    env.push_back(nullptr);
    int started[2];
    if (pipe2(started, O_CLOEXEC) != 0) abort();
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (own_session) setsid();
      execve(argv[0], const_cast<char**>(argv.data()), const_cast<char**>(env.data()));
      _exit(127);
    }
    close(started[1]);
    char byte = 0;
    [[maybe_unused]] const ssize_t end = read(started[0], &byte, 1);  // it has executed
    close(started[0]);
  }
  Child(const Child&) = delete;
  ~Child() {
    if (!waited_) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
  }
  [[nodiscard]] pid_t pid() const { return pid_; }
  int Wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    waited_ = true;
    return status;
  }

 private:
  pid_t pid_ = 0;
  bool waited_ = false;
};

}  // namespace tfdist::agent
