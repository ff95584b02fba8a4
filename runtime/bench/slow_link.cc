#include "runtime/bench/slow_link.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "runtime/testing/loopback.h"

namespace tfdist::runtime::bench {
namespace {

using testing::NewTcpSocket;

// What passes at a time.
constexpr size_t kPacketBytes = size_t{16} * 1024;
// So much of a late wake-up is made up for.
constexpr std::chrono::milliseconds kMadeUpFor{1};

bool SendAll(int to, const char* bytes, size_t count) {
  while (count > 0) {
    const ssize_t sent = send(to, bytes, count, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes += sent;
    count -= static_cast<size_t>(sent);
  }
  return true;
}

void Pass(int from, int to, double bytes_per_second) {
  using std::chrono::duration;
  std::vector<char> packet(kPacketBytes);
  TimePoint free = SystemClock().Now();  // the direction, for the next packet
  while (true) {
    const ssize_t count = recv(from, packet.data(), packet.size(), 0);
    if (count <= 0) break;
    const auto takes = std::chrono::duration_cast<TimePoint::duration>(
        duration<double>(static_cast<double>(count) / bytes_per_second));
    free = std::max(free, SystemClock().Now() - kMadeUpFor) + takes;
    std::this_thread::sleep_until(free);
    if (!SendAll(to, packet.data(), static_cast<size_t>(count))) break;
  }
  shutdown(from, SHUT_RDWR);
  shutdown(to, SHUT_RDWR);
}

void Relay(UniqueFd near, int port, double bytes_per_second) {
  UniqueFd far = NewTcpSocket();
  const sockaddr_in address = testing::Loopback(port);
  const int on = 1;
  setsockopt(near.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(far.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (connect(far.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return;
  std::thread back([&] { Pass(far.get(), near.get(), bytes_per_second); });
  Pass(near.get(), far.get(), bytes_per_second);
  back.join();
}

}  // namespace

void StartSlowLink(int port, size_t bytes_per_second) {
  const auto rate = static_cast<double>(bytes_per_second);
  const auto listener = std::make_shared<UniqueFd>(NewTcpSocket());
  sockaddr_in address = testing::Loopback(port);
  inet_pton(AF_INET, kLinkHost, &address.sin_addr);
  const int on = 1;
  setsockopt(listener->get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(listener->get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      listen(listener->get(), 16) != 0) {
    throw std::runtime_error("the link cannot listen");
  }
  std::thread([listener, port, rate] {
    while (true) {
      UniqueFd near(accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!near.valid()) return;
      std::thread([near = std::move(near), port, rate]() mutable {
        Relay(std::move(near), port, rate);
      }).detach();
    }
  }).detach();
}

}  // namespace tfdist::runtime::bench
