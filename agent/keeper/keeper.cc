#include "agent/keeper/keeper.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "agent/keeper/keeper_loop.h"
#include "agent/process/spawn.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "job/layout.h"

namespace tfdist::agent {
namespace {

struct NotesPipe {
  UniqueFd read;
  UniqueFd write;
};

NotesPipe MakeNotesPipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) {
    throw Error(Phase::kInternal, WithErrno("cannot make a pipe", errno));
  }
  const UniqueFd read(ends[0]);
  const UniqueFd write(ends[1]);
  return {DuplicateHigh(read.get()), DuplicateHigh(write.get())};
}

// The pipe of the keeper before: its holders still write into it. An agent has only the read end;
// opening that anew for writing gives the other one (pipe(7), proc(5) /proc/PID/fd).
NotesPipe InheritNotesPipe() {
  const std::string path = "/proc/self/fd/" + std::to_string(kNotesFd);
  const UniqueFd write = OpenFile(path, O_WRONLY | O_NONBLOCK);
  return {DuplicateHigh(kNotesFd), DuplicateHigh(write.get())};
}

void RedirectStdio(const std::filesystem::path& slot_folder) {
  const UniqueFd null = OpenFile("/dev/null", O_RDWR);
  const UniqueFd log = OpenFile(slot_folder / "agent.log", O_WRONLY | O_CREAT | O_APPEND);
  for (const auto& [from, to] :
       {Inherited{null.get(), STDIN_FILENO}, Inherited{null.get(), STDOUT_FILENO},
        Inherited{log.get(), STDERR_FILENO}}) {
    if (dup2(from, to) < 0) throw Error(Phase::kInternal, WithErrno("cannot redirect", errno));
  }
}

// All that is this process's own, away from what `start` or an agent's role had.
KeeperResources SetUp(const Handover& handover) {
  SetLogName("keeper");
  prctl(PR_SET_NAME, "tfdist-keeper");
  HostSettings::SetOurs();
  setsid();  // fails where it has been done
  if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) {
    throw Error(Phase::kInternal, WithErrno("cannot become a subreaper", errno));
  }
  if (chdir(handover.slot_folder.c_str()) != 0) {
    throw Error(Phase::kFiles, WithErrno("cannot enter " + handover.slot_folder.string(), errno));
  }
  RedirectStdio(handover.slot_folder);

  KeeperResources resources;
  const bool inherits = handover.keeper_lost && !handover.notes_lost;
  NotesPipe notes = inherits ? InheritNotesPipe() : MakeNotesPipe();
  resources.notes_read = std::move(notes.read);
  resources.notes_write = std::move(notes.write);
  if (handover.has_listener) resources.listener = DuplicateHigh(kListenerFd);
  if (handover.has_name_lock) resources.name_lock = DuplicateHigh(kNameLockFd);
  CloseDescriptors(STDERR_FILENO + 1, {resources.notes_read.get(), resources.notes_write.get(),
                                       resources.listener.get(), resources.name_lock.get()});
  return resources;
}

}  // namespace

void ExecKeeper(const std::filesystem::path& slot_folder, const HostSettings& host, int listener_fd,
                int name_lock_fd, Begins begins) {
  Handover handover{.slot_folder = slot_folder,
                    .host = host,
                    .has_listener = listener_fd >= 0,
                    .has_name_lock = name_lock_fd >= 0,
                    .keeper_lost = begins == Begins::kAgain,
                    .notes_lost = begins == Begins::kAgain};
  // First away from the numbers where they will stand: either may be the other's.
  UniqueFd listener;
  UniqueFd name_lock;
  if (handover.has_listener) listener = DuplicateHigh(listener_fd);
  if (handover.has_name_lock) name_lock = DuplicateHigh(name_lock_fd);
  if (handover.has_listener) dup2(listener.get(), kListenerFd);
  if (handover.has_name_lock) dup2(name_lock.get(), kNameLockFd);
  const std::filesystem::path executable = slot_folder / layout::kAgent;
  ExecRole(executable.c_str(), "keeper", handover.ToArguments());
  throw Error(Phase::kStart, WithErrno("cannot execute " + executable.string(), errno));
}

int KeeperMain(const std::vector<std::string>& arguments) {
  Handover handover = Handover::Parse(arguments);
  KeeperResources resources = SetUp(handover);
  KeeperLoop loop(std::move(handover), std::move(resources));
  return loop.Run();
}

}  // namespace tfdist::agent
