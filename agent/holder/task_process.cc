#include "agent/holder/task_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>

#include "agent/holder/exec_search.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "base/file.h"
#include "base/process_limits.h"

namespace tfdist::agent {
namespace {

// By how much more than we the task is liked by the kernel's out-of-memory killer.
constexpr int kOomScoreAbove = 500;
constexpr int kOomScoreMax = 1000;  // proc(5)
constexpr int kExecFailed = 127;    // as a shell says it; ExecReport has the words

// What follows runs in the child. It has no threads, so it may allocate.
// -------------------------------

void DieWithParent(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kExecFailed);  // it died before that took effect
}

// Raising the score needs no privilege. A failure would cost no more than the preference.
void RaiseOomScore() {
  const UniqueFd fd(open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC));
  char text[16] = {};
  if (!fd.valid() || read(fd.get(), text, sizeof text - 1) <= 0) return;
  const std::string score = std::to_string(TaskOomScore(atoi(text)));
  [[maybe_unused]] const ssize_t put = pwrite(fd.get(), score.data(), score.size(), 0);
}

void ResetSignals() {
  for (int number = 1; number < NSIG; ++number) signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  pthread_sigmask(SIG_SETMASK, &none, nullptr);
}

// dup2 leaves a descriptor that is in its place already close-on-exec.
void PutDescriptor(int from, int to) {
  if (from == to) {
    fcntl(to, F_SETFD, 0);
  } else {
    dup2(from, to);
  }
}

std::string BecomeTask(const RunSpec& spec, const HostSettings& host, int stdout_fd, int stderr_fd,
                       pid_t parent, int go_fd) {
  setsid();
  DieWithParent(parent);
  RaiseOomScore();
  host.Restore();
  const UniqueFd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!null.valid()) return WithErrno("cannot open /dev/null", errno);
  PutDescriptor(null.get(), STDIN_FILENO);
  PutDescriptor(stdout_fd, STDOUT_FILENO);
  PutDescriptor(stderr_fd, STDERR_FILENO);
  if (chdir(spec.cwd.c_str()) != 0) return WithErrno("cannot enter " + spec.cwd, errno);
  ResetSignals();
  eventfd_t go = 0;
  if (eventfd_read(go_fd, &go) != 0) return WithErrno("cannot wait for its start", errno);
  return Execute(spec);
}

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

Pipe MakeReportPipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw Error(Phase::kCommand, WithErrno("cannot make a pipe", errno));
  }
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

}  // namespace

int TaskOomScore(int own) { return std::min(own + kOomScoreAbove, kOomScoreMax); }

bool ExecReport::Read() {
  char text[PIPE_BUF];
  while (pipe_.valid()) {
    const ssize_t got = read(pipe_.get(), text, sizeof text);
    if (got > 0) {
      failure_.append(text, static_cast<size_t>(got));
    } else if (got == 0 || (errno != EINTR && errno != EAGAIN)) {
      pipe_.Reset();
      return true;
    } else if (errno == EAGAIN) {
      return false;
    }
  }
  return false;
}

StartedTask ForkTask(const RunSpec& spec, const HostSettings& host, int stdout_fd, int stderr_fd) {
  Pipe report = MakeReportPipe();
  UniqueFd go(eventfd(0, EFD_CLOEXEC));
  if (!go.valid()) throw Error(Phase::kCommand, WithErrno("cannot make an eventfd", errno));
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) throw Error(Phase::kCommand, WithProcessLimits(WithErrno("cannot fork", errno)));
  if (pid > 0) {
    FailPoint("task forked");
    return {.pid = pid, .exec = ExecReport(std::move(report.read)), .go = std::move(go)};
  }

  const std::string failure = BecomeTask(spec, host, stdout_fd, stderr_fd, parent, go.get());
  // At most PIPE_BUF: taken as a whole, without waiting.
  [[maybe_unused]] const ssize_t put =
      write(report.write.get(), failure.data(), std::min<size_t>(failure.size(), PIPE_BUF));
  _exit(kExecFailed);
}

void ExecuteTask(StartedTask& task) {
  eventfd_write(task.go.get(), 1);
  task.go.Reset();
}

}  // namespace tfdist::agent
