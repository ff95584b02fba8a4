#include "agent/tasks/exec_trial.h"

#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <string>

#include "base/clock.h"

namespace tfdist::agent {
namespace {

constexpr std::chrono::seconds kExecTrialLimit{5};
constexpr int kNotTried = 255;  // no errno is as large
constexpr std::array kLasting = {ENOENT, ENOEXEC, ELIBBAD, EINVAL, EIO};

// In the child of a process with threads: nothing that allocates.
[[noreturn]] void BeTried(const char* file, const char* folder, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const bool is_traced = getppid() == parent && ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) == 0;
  if (!is_traced || chdir(folder) != 0) _exit(kNotTried);
  raise(SIGSTOP);  // until it is set up that execve stops it
  char* const argv[] = {const_cast<char*>(file), nullptr};
  char* const env[] = {nullptr};
  execve(file, argv, env);
  _exit(errno);
}

// A child that is traced.
class Tried {
 public:
  explicit Tried(pid_t pid) : pid_(pid) {}

  // The exit code of BeTried; nullopt where it does not get as far, as it is stopped in its execve.
  std::optional<int> Run() {
    if (!WaitForChange()) return std::nullopt;
    if (is_there_ && !Continue()) return std::nullopt;
    if (!WIFEXITED(status_)) return std::nullopt;
    return WEXITSTATUS(status_);
  }

  void End() {
    if (is_there_ && kill(pid_, SIGKILL) == 0) (void)WaitForChange();
  }

 private:
  // From its SIGSTOP to the end of its execve.
  bool Continue() {
    constexpr uintptr_t kStopInExec = PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
    const bool goes_on = WSTOPSIG(status_) == SIGSTOP &&
                         ptrace(PTRACE_SETOPTIONS, pid_, nullptr, kStopInExec) == 0 &&
                         ptrace(PTRACE_CONT, pid_, nullptr, nullptr) == 0;
    return goes_on && WaitForChange();
  }

  // False: not in time.
  bool WaitForChange() {
    const TimePoint deadline = SystemClock().Now() + kExecTrialLimit;
    for (int pause_us = 100;; pause_us = std::min(2 * pause_us, 20'000)) {
      const pid_t changed = waitpid(pid_, &status_, WNOHANG);
      is_there_ = changed == 0 || (changed == pid_ && WIFSTOPPED(status_));
      if (changed != 0) return changed == pid_;
      if (SystemClock().Now() >= deadline) return false;
      usleep(static_cast<useconds_t>(pause_us));
    }
  }

  pid_t pid_;
  int status_ = 0;
  bool is_there_ = true;  // else its pid may be another's
};

}  // namespace

std::optional<int> WhyKernelRefuses(const std::filesystem::path& file,
                                    const std::filesystem::path& folder) {
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) BeTried(file.c_str(), folder.c_str(), parent);
  if (pid < 0) return std::nullopt;
  Tried tried(pid);
  const auto code = tried.Run();
  tried.End();
  if (!code || std::ranges::find(kLasting, *code) == kLasting.end()) return std::nullopt;
  return code;
}

}  // namespace tfdist::agent
