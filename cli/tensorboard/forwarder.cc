#include "cli/tensorboard/forwarder.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <exception>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/failures.h"
#include "cli/job/connector.h"

namespace tfdist::cli {
namespace {

using namespace std::chrono_literals;

constexpr int kOutOfDescriptorsPauseMs = 100;
constexpr auto kTunnelLimit = 15s;
constexpr auto kWriteLimit = 30s;  // for one piece, to a peer that does not read
// A wish of libssh2 to send, which waits for room, wakes no poll for input.
constexpr int kPairTurnMs = 1000;
constexpr int kBacklog = 64;
constexpr size_t kPieceBytes = 64 * 1024;

TimePoint InTime(std::chrono::seconds span) { return SystemClock().Now() + span; }

UniqueFd ListenHere(int port) {
  UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int on = 1;
  setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (!listener.valid() ||
      bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      listen(listener.get(), kBacklog) != 0) {
    throw Error(Phase::kConnect,
                WithErrno(fmt::format("cannot listen on port {} of this machine", port), errno),
                "choose another one with --port, or leave it out");
  }
  return listener;
}

int PortOf(const UniqueFd& listener) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin_port);
}

// False when the peer has gone or does not read.
bool SendAll(int fd, std::string_view bytes, int stop, TimePoint deadline) {
  while (!bytes.empty()) {
    const ssize_t put = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (put >= 0) {
      bytes.remove_prefix(static_cast<size_t>(put));
      continue;
    }
    if (errno != EAGAIN && errno != EINTR) return false;
    std::array<pollfd, 2> polled{{{fd, POLLOUT, 0}, {stop, POLLIN, 0}}};
    const int ready =
        poll(polled.data(), polled.size(), PollTimeout(SystemClock().Now(), deadline));
    if (ready == 0 || polled[1].revents != 0) return false;
  }
  return true;
}

// One connection of this machine and its other half on the host.
class ForwardedPair {
 public:
  ForwardedPair(const UniqueFd& near, ByteChannel& far, int stop)
      : near_(near), far_(far), stop_(stop) {}

  // Until either side ends it, or `stop` is readable. Throws LostConnection.
  void Run() {
    while (PassBack()) {
      std::array<pollfd, 3> fds{
          {{near_.get(), POLLIN, 0}, {far_.PollFd(), POLLIN, 0}, {stop_, POLLIN, 0}}};
      poll(fds.data(), fds.size(), kPairTurnMs);
      if (fds[2].revents != 0) return;
      if (fds[0].revents != 0 && !PassOn()) return;
    }
  }

 private:
  // All that the host has sent. False: it, or the reader here, has ended, or all is to end.
  bool PassBack() {
    while (!Stopped()) {
      std::string bytes;
      const auto result = far_.Read(bytes, TimePoint());
      if (!SendAll(near_.get(), bytes, stop_, InTime(kWriteLimit))) return false;
      if (result != ByteChannel::ReadResult::kData) {
        return result == ByteChannel::ReadResult::kTimeout;
      }
    }
    return false;
  }
  [[nodiscard]] bool Stopped() const {
    pollfd polled{stop_, POLLIN, 0};
    return poll(&polled, 1, 0) > 0;
  }
  bool PassOn() {
    std::array<char, kPieceBytes> piece;
    const ssize_t got = recv(near_.get(), piece.data(), piece.size(), MSG_DONTWAIT);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    if (got > 0) far_.Write({piece.data(), static_cast<size_t>(got)}, InTime(kWriteLimit));
    return got > 0;
  }

  const UniqueFd& near_;
  ByteChannel& far_;
  int stop_;
};

}  // namespace

Forwarder::Forwarder(const HostPlan& host, const SshOptions& ssh, int remote_port, int local_port)
    : host_(host),
      ssh_(ssh),
      remote_port_(remote_port),
      listener_(ListenHere(local_port)),
      port_(PortOf(listener_)),
      stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      acceptor_([this] { Accept(); }) {}

Forwarder::~Forwarder() {
  const uint64_t one = 1;
  (void)!write(stop_.get(), &one, sizeof one);  // never read: it wakes everybody
  std::vector<std::thread> servers;
  {
    const MutexLock lock(mutex_);
    ending_ = true;
    servers = std::move(servers_);
  }
  changed_.notify_all();
  acceptor_.join();
  for (std::thread& server : servers) server.join();
}

std::optional<Error> Forwarder::TakeFailure() {
  const MutexLock lock(mutex_);
  return std::exchange(failure_, std::nullopt);
}

void Forwarder::Accept() {
  while (true) {
    std::array<pollfd, 2> fds{{{listener_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}}};
    poll(fds.data(), fds.size(), -1);
    if (fds[1].revents != 0) return;
    UniqueFd connection(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (connection.valid()) {
      Take(std::move(connection));
    } else if (errno == EMFILE || errno == ENFILE) {
      poll(&fds[1], 1,
           kOutOfDescriptorsPauseMs);  // the connection would wake us at once, again and again
    }
  }
}

void Forwarder::Take(UniqueFd connection) {
  const MutexLock lock(mutex_);
  if (ending_) return;
  waiting_.push_back(std::move(connection));
  if (idle_ < waiting_.size() && servers_.size() < kMostAtATime) {
    servers_.emplace_back([this] { Serve(); });
  }
  changed_.notify_one();
}

UniqueFd Forwarder::Next() {
  MutexLock lock(mutex_);
  ++idle_;
  while (waiting_.empty() && !ending_) changed_.wait(mutex_);
  --idle_;
  if (ending_) return {};
  UniqueFd next = std::move(waiting_.front());
  waiting_.pop_front();
  return next;
}

void Forwarder::Serve() {
  Tunnels tunnels(host_, ssh_);
  for (UniqueFd near = Next(); near.valid(); near = Next()) {
    try {
      TimePoint deadline = InTime(kTunnelLimit);
      const auto far = tunnels.Open(remote_port_, deadline);
      ForwardedPair(near, *far, stop_.get()).Run();
    } catch (const Error& error) {
      Note(error);
    } catch (const std::exception& e) {
      Note(Error(Phase::kInternal, e.what()).WithHost(host_.name));
    }
  }
}

void Forwarder::Note(const Error& error) {
  const MutexLock lock(mutex_);
  if (std::exchange(last_failure_, error.what()) != error.what()) failure_ = error;
}

}  // namespace tfdist::cli
