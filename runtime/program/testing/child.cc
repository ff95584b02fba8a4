#include "runtime/program/testing/child.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <ctime>
#include <stdexcept>
#include <utility>

#include "base/clock.h"

namespace tfdist::runtime::testing {
namespace {

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

Child::Child(const std::vector<std::string>& argv, const std::vector<std::string>& environment) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
  output_.Reset(ends[0]);
  const UniqueFd write_end(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, write_end.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, write_end.get(), STDERR_FILENO);
  const int error = posix_spawn(&pid_, argv[0].c_str(), &actions, nullptr, Pointers(argv).data(),
                                Pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::runtime_error("cannot start " + argv[0]);
}

Child::Child(Child&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      output_(std::move(other.output_)),
      rest_(std::move(other.rest_)),
      lines_(std::move(other.lines_)) {}

Child::~Child() {
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

std::chrono::duration<double> Child::CpuTime() const {
  clockid_t clock{};
  timespec used{};
  if (clock_getcpuclockid(pid_, &clock) != 0 || clock_gettime(clock, &used) != 0) {
    throw std::runtime_error("no CPU clock of the child");
  }
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

void Child::Signal(int signal) const { kill(pid_, signal); }

std::optional<std::string> Child::ReadUntil(
    const std::function<bool(const std::string&)>& condition, std::chrono::seconds limit) {
  const auto deadline = SystemClock().Now() + limit;
  std::string line;
  while (true) {
    while (TakeLine(line)) {
      if (condition(line)) return line;
    }
    if (!ReadMore(deadline)) return std::nullopt;
  }
}

int Child::Wait(std::chrono::seconds limit) {
  ReadUntil([](const std::string&) { return false; }, limit);
  // Its output has ended, or it has had its time.
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) == 0) {
    pollfd closed = {output_.get(), POLLIN, 0};
    if (poll(&closed, 1, 0) == 0) kill(pid_, SIGKILL);
    waitpid(pid_, &status, 0);
  }
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool Child::TakeLine(std::string& line) {
  const size_t end = rest_.find('\n');
  if (end == std::string::npos) return false;
  line = rest_.substr(0, end);
  rest_.erase(0, end + 1);
  lines_.push_back(line);
  return true;
}

bool Child::ReadMore(std::chrono::steady_clock::time_point deadline) {
  pollfd item = {output_.get(), POLLIN, 0};
  if (poll(&item, 1, PollTimeout(SystemClock().Now(), deadline)) <= 0) return false;
  char bytes[4096];
  const ssize_t count = read(output_.get(), bytes, sizeof bytes);
  if (count <= 0) return false;
  rest_.append(bytes, static_cast<size_t>(count));
  return true;
}

}  // namespace tfdist::runtime::testing
