#include "agent/holder/task_output.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/error.h"

namespace tfdist::agent {
namespace {

constexpr size_t kMoveBytes = 1 << 16;  // what a pipe holds

}  // namespace

TaskOutput::TaskOutput(LogOptions log, bool merged) : buffer_(kMoveBytes), log_(std::move(log)) {
  if (merged) {
    AddPipe(protocol::Stream::kMerged);
  } else {
    AddPipe(protocol::Stream::kStdout);
    AddPipe(protocol::Stream::kStderr);
  }
}

void TaskOutput::AddPipe(protocol::Stream stream) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw Error(Phase::kCommand, WithErrno("cannot make a pipe", errno));
  }
  sources_.push_back({UniqueFd(ends[0]), stream});
  task_ends_.emplace_back(ends[1]);
  // Ours alone: the flag belongs to this end of the pipe, the task's writes wait as ever.
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
}

void TaskOutput::AddTo(std::vector<pollfd>& fds) const {
  for (const Source& source : sources_) {
    fds.push_back({.fd = source.fd.get(), .events = POLLIN, .revents = 0});
  }
}

void TaskOutput::MoveSome() {
  std::erase_if(sources_, [this](const Source& source) { return MoveOnce(source) == Moved::kEnd; });
}

void TaskOutput::MoveAll() {
  std::erase_if(sources_,
                [this](const Source& source) { return MoveWhatIsThere(source) == Moved::kEnd; });
}

TaskOutput::Moved TaskOutput::MoveOnce(const Source& source) {
  const ssize_t got = read(source.fd.get(), buffer_.data(), buffer_.size());
  if (got > 0) log_.Append(source.stream, {buffer_.data(), static_cast<size_t>(got)});
  const bool later = got < 0 && (errno == EAGAIN || errno == EINTR);
  return got > 0 || later ? Moved::kYes : Moved::kEnd;
}

TaskOutput::Moved TaskOutput::MoveWhatIsThere(const Source& source) {
  int bytes = 0;
  if (ioctl(source.fd.get(), FIONREAD, &bytes) != 0) return Moved::kEnd;
  // Once more than that takes: the last read may find the end.
  for (int moves = bytes / static_cast<int>(kMoveBytes) + 2; moves > 0; --moves) {
    if (MoveOnce(source) == Moved::kEnd) return Moved::kEnd;
  }
  return Moved::kYes;
}

}  // namespace tfdist::agent
