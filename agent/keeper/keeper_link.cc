#include "agent/keeper/keeper_link.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "agent/process/command.h"
#include "agent/process/spawn.h"
#include "base/error.h"

namespace tfdist::agent {
namespace {

bool HasType(int fd, mode_t type) {
  struct stat info {};
  return fstat(fd, &info) == 0 && (info.st_mode & S_IFMT) == type;
}

UniqueFd TakeOver(int fd) {
  fcntl(fd, F_SETFD, FD_CLOEXEC);
  return UniqueFd(fd);
}

}  // namespace

KeeperLink::KeeperLink(const std::vector<std::string>& arguments)
    : handover_(Handover::Parse(arguments)) {
  if (!HasType(kCommandFd, S_IFSOCK) || !HasType(kNotesFd, S_IFIFO)) {
    throw Error(Phase::kStart, "the agent is started by its keeper, not by hand");
  }
  commands_ = TakeOver(kCommandFd);
  notes_ = TakeOver(kNotesFd);
  if (handover_.has_listener) listener_ = TakeOver(kListenerFd);
  if (handover_.has_name_lock) name_lock_ = TakeOver(kNameLockFd);
}

bool KeeperLink::StartHolder(std::string_view task, std::string_view run) {
  return SendCommand(
      commands_.get(),
      {.kind = CommandKind::kStart, .task = std::string(task), .run = std::string(run)});
}

bool KeeperLink::StopHolder(std::string_view task, std::string_view run) {
  LetKeeperGoOn();
  return SendCommand(
      commands_.get(),
      {.kind = CommandKind::kStop, .task = std::string(task), .run = std::string(run)});
}

bool KeeperLink::KillHolder(std::string_view task, std::string_view run) {
  LetKeeperGoOn();
  return SendCommand(
      commands_.get(),
      {.kind = CommandKind::kKill, .task = std::string(task), .run = std::string(run)});
}

bool KeeperLink::WarnHolder(std::string_view task, std::string_view run) {
  return SendCommand(
      commands_.get(),
      {.kind = CommandKind::kWarn, .task = std::string(task), .run = std::string(run)});
}

bool KeeperLink::Quit(std::chrono::milliseconds limit) {
  LetKeeperGoOn();
  return SendCommand(commands_.get(), {.kind = CommandKind::kQuit,
                                       .value = static_cast<int32_t>(limit.count()),
                                       .task = {},
                                       .run = {}});
}

void KeeperLink::LetKeeperGoOn() const {
  if (getppid() == keeper_) kill(keeper_, SIGCONT);
}

bool KeeperLink::KeeperGone() const {
  char byte = 0;
  const ssize_t got = recv(commands_.get(), &byte, sizeof byte, MSG_PEEK | MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

void KeeperLink::BecomeKeeper() {
  Handover handover = handover_;
  handover.keeper_lost = true;
  // They stand at the numbers at which a keeper looks for them; all else it closes.
  for (const UniqueFd* fd : {&notes_, &listener_, &name_lock_}) {
    if (fd->valid()) fcntl(fd->get(), F_SETFD, 0);
  }
  ExecRole(nullptr, "keeper", handover.ToArguments());
  throw Error(Phase::kInternal, WithErrno("cannot become the keeper", errno));
}

}  // namespace tfdist::agent
