#include "cli/ssh/openssh/master_end.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "cli/ssh/keys/wire.h"

namespace tfdist::ssh {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr auto kMasterEndLimit = 2s;  // of all together
constexpr int kAnswerMs = 1000;
constexpr auto kMasterKillLimit = 2s;  // the same, after SIGKILL

// Of the protocol on a control socket: PROTOCOL.mux in OpenSSH's sources. A message is a string (wire.h): a type, then a
// number.
constexpr uint32_t kHello = 0x00000001;
constexpr uint32_t kVersion = 4;
constexpr uint32_t kTerminate = 0x10000005;
constexpr uint32_t kRequest = 0;  // our number of it

void AppendMessage(std::string& out, uint32_t type, uint32_t number) {
  std::string body;
  AppendUint32(body, type);
  AppendUint32(body, number);
  AppendString(out, body);
}

// One that is asked to end. It closes its side of the socket when it ends.
struct EndingMaster {
  std::string path;
  UniqueFd socket;        // none: it has ended
  bool is_stuck = false;  // it takes no more connections, and is not asked
};

void Ask(const EndingMaster& master) {
  std::string words;
  AppendMessage(words, kHello, kVersion);
  AppendMessage(words, kTerminate, kRequest);
  (void)send(master.socket.get(), words.data(), words.size(), MSG_NOSIGNAL);
}

// What it answers is not looked at.
void SeeWhetherItEnds(EndingMaster& master) {
  std::array<char, 4096> buffer;
  const ssize_t got = recv(master.socket.get(), buffer.data(), buffer.size(), 0);
  if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) master.socket.Reset();
}

// False when `limit` has passed before.
bool AllEnd(std::vector<EndingMaster>& masters, std::chrono::milliseconds limit) {
  const TimePoint deadline = SystemClock().Now() + limit;
  std::vector<pollfd> sockets(masters.size());
  while (true) {
    for (size_t at = 0; at < masters.size(); ++at) {
      sockets[at] = {masters[at].socket.get(), POLLIN, 0};
    }
    if (std::all_of(sockets.begin(), sockets.end(), [](const pollfd& it) { return it.fd < 0; })) {
      return true;
    }
    const TimePoint now = SystemClock().Now();
    if (now >= deadline) return false;
    if (poll(sockets.data(), sockets.size(), PollTimeout(now, deadline)) <= 0) continue;
    for (size_t at = 0; at < masters.size(); ++at) {
      if (sockets[at].revents != 0) SeeWhetherItEnds(masters[at]);
    }
  }
}

// Of that one, and of each ssh that uses it, the socket is a word of the command line (-S).
bool HasSocket(pid_t pid, const std::string& path) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/cmdline", std::ios::binary);
  const std::string words{std::istreambuf_iterator<char>(file), {}};
  return words.find('\0' + path + '\0') != words.npos;
}

// One that hangs does not say its number. Where there is no pidfd (before Linux 5.3) it is left to ControlPersist.
void Kill(pid_t pid, const std::string& path) {
  const UniqueFd process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (process.valid() && HasSocket(pid, path)) {
    (void)syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0);
  }
}

std::vector<pid_t> AllProcesses() {
  std::vector<pid_t> pids;
  std::error_code none;
  for (fs::directory_iterator it("/proc", none); it != end(it); it.increment(none)) {
    const std::string name = it->path().filename().string();
    pid_t pid = 0;
    const auto parsed = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (parsed.ec == std::errc() && parsed.ptr == name.data() + name.size()) pids.push_back(pid);
  }
  return pids;
}

void KillThoseLeft(const std::vector<EndingMaster>& masters) {
  for (const pid_t pid : AllProcesses()) {
    for (const EndingMaster& master : masters) {
      if ((master.socket.valid() || master.is_stuck) && HasSocket(pid, master.path))
        Kill(pid, master.path);
    }
  }
}

// With neither: nobody listens there.
struct MasterConnection {
  UniqueFd socket;
  bool is_stuck = false;
};

MasterConnection ConnectToMaster(const std::string& socket) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  struct stat status {};
  if (socket.empty() || socket.size() >= sizeof address.sun_path ||
      lstat(socket.c_str(), &status) != 0 || !S_ISSOCK(status.st_mode)) {
    return {};
  }
  std::memcpy(address.sun_path, socket.c_str(), socket.size() + 1);
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid() ||
      connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    // EAGAIN: as many wait there as may.
    return {{}, fd.valid() && errno == EAGAIN};
  }
  return {std::move(fd), false};
}

}  // namespace

bool IsListenedTo(const std::string& socket) {
  const MasterConnection master = ConnectToMaster(socket);
  return master.socket.valid() || master.is_stuck;
}

bool HasEnded(const std::string& socket) {
  const MasterConnection master = ConnectToMaster(socket);
  if (!master.socket.valid()) return !master.is_stuck;
  std::string hello;
  AppendMessage(hello, kHello, kVersion);
  (void)send(master.socket.get(), hello.data(), hello.size(), MSG_NOSIGNAL);
  pollfd answer{master.socket.get(), POLLIN, 0};
  if (poll(&answer, 1, kAnswerMs) <= 0) return false;
  char byte = 0;
  return recv(master.socket.get(), &byte, 1, 0) <= 0;
}

void EndMastersAt(const std::vector<std::string>& sockets) {
  std::vector<EndingMaster> masters;
  for (const std::string& path : sockets) {
    MasterConnection master = ConnectToMaster(path);
    if (!master.socket.valid() && !master.is_stuck) continue;
    masters.push_back({path, std::move(master.socket), master.is_stuck});
    if (!master.is_stuck) Ask(masters.back());
  }
  const bool one_is_stuck = std::ranges::any_of(masters, &EndingMaster::is_stuck);
  if (AllEnd(masters, kMasterEndLimit) && !one_is_stuck) return;
  KillThoseLeft(masters);
  (void)AllEnd(masters, kMasterKillLimit);
}

}  // namespace tfdist::ssh
