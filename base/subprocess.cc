#include "base/subprocess.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <optional>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/spawn.h"
#include "base/unique_fd.h"

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

// One read. What came, "" at end of file, nullopt when a signal came instead.
std::optional<std::string_view> ReadSome(int fd, std::array<char, 16384>& buffer) {
  const ssize_t got = read(fd, buffer.data(), buffer.size());
  if (got < 0 && errno == EINTR) return std::nullopt;
  return std::string_view(buffer.data(), static_cast<size_t>(std::max<ssize_t>(got, 0)));
}

void Keep(std::string& text, std::string_view bytes, size_t limit) {
  text += bytes.substr(0, limit - std::min(limit, text.size()));
}

// The conversation with a program, over its two pipes.
class Outputs {
 public:
  Outputs(const ProgramOptions& options, ProgramResult& result)
      : options_(options), result_(result) {}

  // Reads both to their ends; false when the deadline passes first, or there is too much.
  bool Drain(UniqueFd out, UniqueFd err, TimePoint deadline) {
    while (out.valid() || err.valid()) {
      // poll(2) passes over negative descriptors.
      std::array<pollfd, 2> fds = {pollfd{out.get(), POLLIN, 0}, pollfd{err.get(), POLLIN, 0}};
      const TimePoint now = SystemClock().Now();
      if (now >= deadline || poll(fds.data(), fds.size(), PollTimeout(now, deadline)) == 0) {
        result_.timed_out = true;
        return false;
      }
      if (fds[0].revents != 0 && !TakeOutput(out)) return false;
      if (fds[1].revents != 0) TakeErrors(err);
    }
    return true;
  }

 private:
  bool TakeOutput(UniqueFd& out) {
    const auto bytes = ReadSome(out.get(), buffer_);
    if (bytes && bytes->empty()) out.Reset();
    if (!bytes) return true;
    if (options_.stdout_fd < 0) {
      Keep(result_.output, *bytes, options_.output_limit_bytes);
      return true;
    }
    written_bytes_ += bytes->size();
    result_.too_long = written_bytes_ > options_.stdout_limit_bytes;
    if (!result_.too_long) WriteAll(options_.stdout_fd, *bytes, options_.argv[0] + "'s output");
    return !result_.too_long;
  }
  void TakeErrors(UniqueFd& err) {
    const auto bytes = ReadSome(err.get(), buffer_);
    if (bytes && bytes->empty()) err.Reset();
    if (bytes) Keep(result_.error_output, *bytes, options_.output_limit_bytes);
  }

  const ProgramOptions& options_;
  ProgramResult& result_;
  std::array<char, 16384> buffer_{};
  uint64_t written_bytes_ = 0;
};

// A program may close its outputs and run on. One that ends right after
// that is not waited for long.
bool WaitInTime(pid_t pid, int& status, TimePoint deadline) {
  for (int pause_ms = 1;; pause_ms = std::min(2 * pause_ms, 50)) {
    const pid_t ended = waitpid(pid, &status, WNOHANG);
    if (ended == pid) return true;
    if (ended < 0 && errno == ECHILD) {
      status = kUnseenEnd;
      return true;
    }
    if (SystemClock().Now() >= deadline) return false;
    poll(nullptr, 0, pause_ms);
  }
}

// Ends it with what it has started: that holds our pipes as well. What not even SIGKILL ends (it
// waits for a disk or a GPU that is gone) is left behind.
void KillAndReap(pid_t pid, int& status) {
  constexpr std::chrono::seconds kEndLimit{2};
  kill(-pid, SIGKILL);
  if (!WaitInTime(pid, status, SystemClock().Now() + kEndLimit)) status = SIGKILL;
}

}  // namespace

ProgramResult RunProgram(const ProgramOptions& options, TimePoint deadline) {
  Pipe out = MakePipe();
  Pipe err = MakePipe();
  if (options.stdin_fd >= 0) (void)lseek(options.stdin_fd, 0, SEEK_SET);
  const SpawnStreams streams{
      .in = options.stdin_fd, .out = out.write_end.get(), .err = err.write_end.get()};
  const pid_t pid = SpawnProgram(options.argv, streams, SpawnPlace::kOwnGroup, Phase::kInternal,
                                 options.environment);
  out.write_end.Reset();
  err.write_end.Reset();

  ProgramResult result;
  int status = 0;
  try {
    const bool whole =
        Outputs(options, result).Drain(std::move(out.read_end), std::move(err.read_end), deadline);
    if (!whole) {
      KillAndReap(pid, status);
    } else if (!WaitInTime(pid, status, deadline)) {
      result.timed_out = true;
      KillAndReap(pid, status);
    }
  } catch (const Error&) {  // what it says cannot be written: the disk is full
    KillAndReap(pid, status);
    throw;
  }
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  return result;
}

}  // namespace tfdist
