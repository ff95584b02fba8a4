#include "agent/session/unix_listener.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "agent/slot/slot_folder.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"

namespace tfdist::agent {
namespace {

constexpr int kBacklog = 64;
constexpr std::chrono::milliseconds kOutOfDescriptorsPause{100};
constexpr timeval kQueueLimit{.tv_sec = 1, .tv_usec = 0};

sockaddr_un Address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // sun_path holds 107 bytes and a NUL (unix(7)); ours leads through /proc/self/fd and is short.
  if (path.size() >= sizeof address.sun_path) {
    throw Error(Phase::kInternal, "the path of the agent's socket is too long");
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

UniqueFd BoundSocket(const UniqueFd& folder) {
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const std::string path = ShortSocketPath(folder);
  const sockaddr_un address = Address(path);
  unlink(path.c_str());
  // The mode from birth: bind(2) applies the umask.
  const mode_t old_umask = umask(0177);
  const int rc = bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  const int error_number = errno;
  umask(old_umask);
  if (rc != 0 || listen(fd.get(), kBacklog) != 0) {
    throw Error(Phase::kStart, WithErrno("cannot listen on the agent's socket", error_number));
  }
  return fd;
}

bool IsOwnUser(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

}  // namespace

UnixListener::UnixListener(EventLoop& loop, const std::filesystem::path& folder,
                           std::function<void(UniqueFd)> on_connection)
    : folder_(OpenFile(folder, O_RDONLY | O_DIRECTORY)),
      fd_(BoundSocket(folder_)),
      on_connection_(std::move(on_connection)),
      watch_(loop, fd_.get(), POLLIN, [this](short) { Accept(); }),
      resume_(loop, [this] { watch_.SetEvents(POLLIN); }) {}

void UnixListener::Accept() {
  UniqueFd peer(accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!peer.valid()) {
    if (errno != EMFILE && errno != ENFILE) return;
    // The connection stays in the queue and would wake us at once, again and again.
    Log("out of file descriptors, new sessions wait");
    watch_.SetEvents(0);
    resume_.Start(kOutOfDescriptorsPause);
    return;
  }
  if (!IsOwnUser(peer.get())) {
    Log("refused a session of another user");
    return;
  }
  on_connection_(std::move(peer));
}

std::optional<UniqueFd> ConnectToAgent(const std::filesystem::path& folder) {
  const UniqueFd folder_fd = OpenFile(folder, O_RDONLY | O_DIRECTORY);
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  // connect(2) waits for room in a full queue, for ever where the agent is stopped.
  setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &kQueueLimit, sizeof kQueueLimit);
  const sockaddr_un address = Address(ShortSocketPath(folder_fd));
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    if (IsOwnUser(fd.get())) return fd;
    throw Error(Phase::kControl, "the agent's socket belongs to another account");
  }
  if (errno == ENOENT || errno == ECONNREFUSED) return std::nullopt;
  if (errno == EAGAIN) {
    throw AgentTakesNoConnection(Phase::kControl, "the agent takes no connection");
  }
  throw Error(Phase::kControl, WithErrno("cannot connect to the agent's socket", errno));
}

}  // namespace tfdist::agent
