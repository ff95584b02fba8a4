#include "agent/tasks/workdir.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>

#include "base/clock.h"
#include "base/error.h"
#include "base/spawn.h"
#include "base/unique_fd.h"

namespace tfdist::agent {
namespace {

constexpr size_t kMaxComplaintBytes = 1000;

struct Tar {
  pid_t pid;
  UniqueFd complaints;  // its stderr
};

Tar Start(const std::filesystem::path& archive, const std::filesystem::path& folder) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw Error(Phase::kFiles, WithErrno("pipe", errno));
  UniqueFd read_end(ends[0]);
  const UniqueFd write_end(ends[1]);
  // -o: files belong to this account also when it is root, whose tar restores owners by default.
  const pid_t pid =
      SpawnProgram({"tar", "-x", "-z", "-o", "-f", archive.string(), "-C", folder.string()},
                   {.err = write_end.get()}, SpawnPlace::kOwnGroup, Phase::kFiles);
  return {pid, std::move(read_end)};
}

// What tar says until it closes its stderr; false when `deadline` comes first.
bool ReadComplaints(int fd, TimePoint deadline, std::string& complaints) {
  std::array<char, 4096> buffer{};
  while (true) {
    pollfd waiting{fd, POLLIN, 0};
    const int ready = poll(&waiting, 1, PollTimeout(SystemClock().Now(), deadline));
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) return false;
    const ssize_t got = read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return true;
    const size_t room = kMaxComplaintBytes - complaints.size();
    complaints.append(buffer.data(), std::min(room, static_cast<size_t>(got)));
  }
}

int Reap(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

}  // namespace

void ThrowIfStopped(const std::stop_token& stop) {
  if (stop.stop_requested()) throw Error(Phase::kFiles, "unpacking was interrupted");
}

void UnpackArchive(const std::filesystem::path& archive, const std::filesystem::path& folder,
                   std::chrono::milliseconds limit, const std::stop_token& stop) {
  const Tar tar = Start(archive, folder);
  const auto end = [pid = tar.pid] { kill(-pid, SIGKILL); };  // its gzip as well
  std::string complaints;
  bool in_time = false;
  {
    const std::stop_callback end_when_stopped(stop, end);
    in_time = ReadComplaints(tar.complaints.get(), SystemClock().Now() + limit, complaints);
  }
  if (!in_time) end();
  const int status = Reap(tar.pid);
  ThrowIfStopped(stop);
  if (!in_time) {
    throw Error(Phase::kFiles, fmt::format("tar did not unpack {} in {} s", archive.string(),
                                           limit.count() / 1000));
  }
  if (status != 0) {
    throw Error(Phase::kFiles,
                fmt::format("tar could not unpack {}: {}", archive.string(), complaints));
  }
}

}  // namespace tfdist::agent
