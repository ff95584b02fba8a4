#include "cli/channel/child.h"

#include <fcntl.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <system_error>
#include <thread>

#include "base/error.h"

namespace tfdist::cli {

Child Child::Spawn(const std::vector<std::string>& argv, const SpawnStreams& streams,
                   std::shared_ptr<const void> kept) {
  return {SpawnProgram(argv, streams, SpawnPlace::kOwnSession, Phase::kExec), std::move(kept)};
}

Child::~Child() {
  if (pid_ == 0 || waitpid(pid_, nullptr, WNOHANG) != 0) return;
  try {
    // A thread, and no list of children to look after: nobody has to come back for it.
    std::thread([pid = pid_, kept = kept_] { waitpid(pid, nullptr, 0); }).detach();
  } catch (const std::system_error&) {
    // Without a thread it stays a zombie until this process ends; no harm.
  }
}

void Child::Kill() {
  if (pid_ != 0) kill(-pid_, SIGKILL);
}

void Child::HangUp() {
  if (pid_ != 0) kill(-pid_, SIGHUP);
}

void Child::Terminate() {
  if (pid_ != 0) kill(-pid_, SIGTERM);
}

void Child::TieTo(int pipe_end) const {
  if (pid_ == 0 || fcntl(pipe_end, F_SETOWN, -pid_) != 0) return;
  fcntl(pipe_end, F_SETFL, fcntl(pipe_end, F_GETFL) | O_ASYNC);
}

int Child::Wait() {
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0) {
    if (errno == EINTR) continue;
    status = kUnseenEnd;
    break;
  }
  pid_ = 0;
  return status;
}

std::optional<int> Child::TryWait() {
  int status = 0;
  const pid_t ended = waitpid(pid_, &status, WNOHANG);
  if (ended < 0 && errno == ECHILD) {
    status = kUnseenEnd;
  } else if (ended != pid_) {
    return std::nullopt;
  }
  pid_ = 0;
  return status;
}

}  // namespace tfdist::cli
