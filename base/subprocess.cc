#include "base/subprocess.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>

#include "base/error.h"
#include "base/unique_fd.h"

extern char** environ;

namespace tfdist {
namespace {

struct Pipe {
  UniqueFd read_end;
  UniqueFd write_end;
};

Pipe MakePipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw Error(Phase::kInternal, WithErrno("pipe", errno));
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// posix_spawn's two argument objects, freed together.
class SpawnSetup {
 public:
  SpawnSetup() {
    posix_spawn_file_actions_init(&actions_);
    posix_spawnattr_init(&attributes_);
    sigset_t none;
    sigemptyset(&none);
    sigset_t all;
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    // A group of its own: Ctrl-C on our terminal is ours to handle.
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(
        &attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }
  ~SpawnSetup() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnSetup(const SpawnSetup&) = delete;
  SpawnSetup& operator=(const SpawnSetup&) = delete;

  void Connect(int out, int err) {
    posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions_, out, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions_, err, STDERR_FILENO);
  }

  pid_t Spawn(const std::vector<std::string>& argv) {
    std::vector<char*> arguments;
    for (const std::string& argument : argv) {
      arguments.push_back(const_cast<char*>(argument.c_str()));
    }
    arguments.push_back(nullptr);
    pid_t pid = -1;
    const int failed =
        posix_spawnp(&pid, arguments[0], &actions_, &attributes_, arguments.data(), environ);
    if (failed != 0) {
      throw Error(Phase::kInternal, WithErrno(fmt::format("cannot run {}", argv[0]), failed),
                  fmt::format("install {} on this machine", argv[0]));
    }
    return pid;
  }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

// One read; false at end of file.
bool Collect(int fd, std::string& text, size_t limit) {
  char buffer[16384];
  const ssize_t got = read(fd, buffer, sizeof buffer);
  if (got < 0) return errno == EINTR;
  if (text.size() < limit) {
    text.append(buffer, std::min(static_cast<size_t>(got), limit - text.size()));
  }
  return got > 0;
}

// Reads both pipes to their ends; false when the deadline passes first.
bool Drain(UniqueFd& out, UniqueFd& err, const ProgramOptions& options, ProgramResult& result,
           TimePoint deadline) {
  while (out.valid() || err.valid()) {
    // poll(2) passes over negative descriptors.
    std::array<pollfd, 2> fds = {pollfd{out.get(), POLLIN, 0}, pollfd{err.get(), POLLIN, 0}};
    const int ready = poll(fds.data(), fds.size(), PollTimeout(SystemClock().Now(), deadline));
    if (ready == 0) return false;
    if (ready < 0) continue;
    if (fds[0].revents != 0 && !Collect(out.get(), result.output, options.output_limit_bytes)) {
      out.Reset();
    }
    if (fds[1].revents != 0 &&
        !Collect(err.get(), result.error_output, options.output_limit_bytes)) {
      err.Reset();
    }
  }
  return true;
}

}  // namespace

ProgramResult RunProgram(const ProgramOptions& options, TimePoint deadline) {
  Pipe out;
  if (options.stdout_fd < 0) out = MakePipe();
  Pipe err = MakePipe();
  SpawnSetup setup;
  setup.Connect(options.stdout_fd < 0 ? out.write_end.get() : options.stdout_fd,
                err.write_end.get());
  const pid_t pid = setup.Spawn(options.argv);
  out.write_end.Reset();
  err.write_end.Reset();

  ProgramResult result;
  if (!Drain(out.read_end, err.read_end, options, result, deadline)) {
    result.timed_out = true;
    kill(-pid, SIGKILL);  // its group: what it started holds our pipes as well
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  return result;
}

}  // namespace tfdist
