#include "cli/tensorboard/tensorboard_beside.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/clock.h"
#include "base/error.h"
#include "cli/show/report.h"

namespace tfdist::cli {
namespace {

constexpr std::chrono::seconds kBesideEndLimit{5};

// Until the other end is closed. False: not by `deadline`.
bool ReadToItsEnd(int fd, TimePoint deadline) {
  std::array<char, 4096> ignored;
  while (true) {
    const ssize_t got = read(fd, ignored.data(), ignored.size());
    if (got == 0) return true;
    if (got > 0 || errno == EINTR) continue;
    pollfd polled{fd, POLLIN, 0};
    if (poll(&polled, 1, PollTimeout(SystemClock().Now(), deadline)) == 0) return false;
  }
}

}  // namespace

TensorBoardBeside::TensorBoardBeside(const std::string& job) {
  try {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) throw Error(Phase::kInternal, WithErrno("pipe", errno));
    lines_ = UniqueFd(ends[0]);
    const UniqueFd out(ends[1]);
    fcntl(lines_.get(), F_SETFL, O_NONBLOCK);
    child_.emplace(Child::Spawn(
        {"/proc/self/exe", "tensorboard", "--wait", "--beside", std::to_string(getpid()), job},
        {.in = -1, .out = out.get(), .err = out.get()}));
  } catch (const Error& error) {
    lines_ = {};
    PrintWarning(std::string("no TensorBoard: ") + error.what(), "tfdist tensorboard " + job);
  }
}

TensorBoardBeside::~TensorBoardBeside() {
  if (!child_) return;
  child_->Terminate();
  if (!ReadToItsEnd(lines_.get(), SystemClock().Now() + kBesideEndLimit)) child_->Kill();
  child_->Wait();
}

}  // namespace tfdist::cli
