#include "runtime/testing/tcp_proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <chrono>
#include <stdexcept>
#include <vector>

#include "base/clock.h"

namespace tfdist::runtime::testing {
namespace {

UniqueFd TcpSocket() { return UniqueFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)); }

bool SendAll(int to, const char* bytes, size_t count) {
  while (count > 0) {
    const ssize_t sent = send(to, bytes, count, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes += sent;
    count -= static_cast<size_t>(sent);
  }
  return true;
}

}  // namespace

std::unique_ptr<TcpProxy> TcpProxy::AtOtherHost(int target_port) {
  sockaddr_in address = Loopback(target_port);
  inet_pton(AF_INET, kOtherHost, &address.sin_addr);
  return std::unique_ptr<TcpProxy>(new TcpProxy(target_port, address));
}

TcpProxy::TcpProxy(int target_port, sockaddr_in listen_at)
    : target_port_(target_port), listener_(TcpSocket()), wake_(eventfd(0, EFD_CLOEXEC)) {
  socklen_t size = sizeof listen_at;
  auto* generic = reinterpret_cast<sockaddr*>(&listen_at);
  if (bind(listener_.get(), generic, size) != 0 || listen(listener_.get(), 16) != 0 ||
      getsockname(listener_.get(), generic, &size) != 0) {
    throw std::runtime_error("the proxy cannot listen");
  }
  port_ = ntohs(listen_at.sin_port);
  thread_ = std::thread([this] { Run(); });
}

TcpProxy::~TcpProxy() {
  stop_ = true;
  eventfd_write(wake_.get(), 1);
  thread_.join();
}

void TcpProxy::Cut() {
  const TimePoint deadline = SystemClock().Now() + std::chrono::minutes(1);
  const MutexLock lock(mutex_);
  cut_wanted_ = true;
  eventfd_write(wake_.get(), 1);
  while (cut_wanted_) {
    if (cut_made_.wait_until(mutex_, deadline) == std::cv_status::timeout && cut_wanted_) {
      throw std::runtime_error("no connection came to the proxy to be cut");
    }
  }
}

std::string TcpProxy::FromServer() const {
  const MutexLock lock(mutex_);
  return from_server_;
}

void TcpProxy::Run() {
  while (true) {
    std::vector<pollfd> items = {{wake_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
    for (const Connection& connection : connections_) {
      items.push_back({connection.client.get(), POLLIN, 0});
      items.push_back({connection.server.get(), POLLIN, 0});
    }
    poll(items.data(), items.size(), -1);
    eventfd_t wakes = 0;
    if (items[0].revents != 0) eventfd_read(wake_.get(), &wakes);
    if (stop_) return;
    if (items[1].revents != 0) Accept();
    for (Connection& connection : connections_) Relay(connection);
    connections_.remove_if([](const Connection& connection) { return !connection.open; });
    CutWhenDue();
  }
}

void TcpProxy::Accept() {
  Connection connection{UniqueFd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)),
                        TcpSocket()};
  const sockaddr_in target = Loopback(target_port_);
  if (connect(connection.server.get(), reinterpret_cast<const sockaddr*>(&target), sizeof target) ==
      0) {
    connections_.push_back(std::move(connection));
  }
}

void TcpProxy::Relay(Connection& connection) {
  connection.open = Pass(connection.client.get(), connection.server.get(), false) &&
                    Pass(connection.server.get(), connection.client.get(), true);
}

bool TcpProxy::Pass(int from, int to, bool from_server) {
  char bytes[65536];
  const ssize_t count = recv(from, bytes, sizeof bytes, MSG_DONTWAIT);
  if (count < 0) return errno == EAGAIN;
  if (count == 0) return false;
  if (from_server) {
    const MutexLock lock(mutex_);
    from_server_.append(bytes, static_cast<size_t>(count));
    since_cut_bytes_ += static_cast<size_t>(count);
  }
  return SendAll(to, bytes, static_cast<size_t>(count));
}

void TcpProxy::CutWhenDue() {
  const MutexLock lock(mutex_);
  if (connections_.empty() || !CutIsDue()) return;
  connections_.clear();
  since_cut_bytes_ = 0;
  ++cuts_;
  cut_wanted_ = false;
  cut_made_.notify_all();
}

bool TcpProxy::CutIsDue() {
  return cut_wanted_ || (cut_every_bytes_ > 0 && since_cut_bytes_ >= cut_every_bytes_);
}

}  // namespace tfdist::runtime::testing
