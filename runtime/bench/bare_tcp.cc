#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <deque>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/unique_fd.h"
#include "runtime/bench/exchanges.h"
#include "runtime/testing/loopback.h"

namespace tfdist::runtime::bench {
namespace {

using testing::Loopback;
using testing::NewTcpSocket;

void SendAtOnce(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

void Write(int fd, BareHeader header, const char* payload, size_t count) {
  header.payload_bytes = count;
  iovec parts[2] = {{&header, sizeof header}, {const_cast<char*>(payload), count}};
  for (int i = 0; i < 2;) {
    const ssize_t written = writev(fd, parts + i, 2 - i);
    if (written < 0) throw std::runtime_error("writev");
    auto left = static_cast<size_t>(written);
    for (; i < 2 && left >= parts[i].iov_len; ++i) left -= parts[i].iov_len;
    if (i == 2) break;
    parts[i].iov_base = static_cast<char*>(parts[i].iov_base) + left;
    parts[i].iov_len -= left;
  }
}

bool ReadAll(int fd, void* to, size_t count) {
  return count == 0 || recv(fd, to, count, MSG_WAITALL) == static_cast<ssize_t>(count);
}

bool Read(int fd, BareHeader& header, std::vector<char>& payload) {
  if (!ReadAll(fd, &header, sizeof header)) return false;
  payload.resize(header.payload_bytes);
  return ReadAll(fd, payload.data(), payload.size());
}

void ServeConnection(const Case& the_case, UniqueFd connection) {
  const std::vector<std::vector<char>> values(static_cast<size_t>(the_case.buffers),
                                              std::vector<char>(the_case.size_bytes, 1));
  BareHeader header;
  std::vector<char> payload;
  while (Read(connection.get(), header, payload)) {
    Write(connection.get(), header, values[header.index].data(), header.answer_bytes);
  }
}

class TcpExchange : public Exchange {
 public:
  TcpExchange(const Case& the_case, const Shared& shared)
      : case_(the_case),
        buffers_(static_cast<size_t>(the_case.buffers), std::vector<char>(the_case.size_bytes, 1)) {
    for (int i = 0; i < the_case.servers; ++i) {
      const sockaddr_in address = Loopback(PortOf(shared, i));
      connections_.push_back(NewTcpSocket());
      const int fd = connections_.back().get();
      if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        throw std::runtime_error("connect");
      }
      SendAtOnce(fd);
    }
  }

  void Begin(size_t call) override {
    const int fd = connections_[call % connections_.size()].get();
    const bool push = case_.operation != Operation::kPull;
    const bool pull = case_.operation != Operation::kPush;
    const BareHeader header{static_cast<uint32_t>(call),
                            pull ? static_cast<uint32_t>(case_.size_bytes) : 0, 0};
    Write(fd, header, buffers_[call].data(), push ? case_.size_bytes : 0);
    begun_.push_back(fd);
  }

  void EndOldest() override {
    BareHeader header;
    if (!Read(begun_.front(), header, answer_)) throw std::runtime_error("recv");
    begun_.pop_front();
  }

 private:
  Case case_;
  std::vector<std::vector<char>> buffers_;
  std::vector<UniqueFd> connections_;
  std::deque<int> begun_;
  std::vector<char> answer_;
};

}  // namespace

void ServeTcp(const Case& the_case, Shared& shared, int server) {
  const UniqueFd listener = NewTcpSocket();
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (bind(listener.get(), generic, size) != 0 || listen(listener.get(), 16) != 0 ||
      getsockname(listener.get(), generic, &size) != 0) {
    throw std::runtime_error("listen");
  }
  shared.ports[server] = ntohs(address.sin_port);
  std::vector<std::thread> threads;
  for (int i = 0; i < the_case.workers; ++i) {
    UniqueFd connection(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    SendAtOnce(connection.get());
    threads.emplace_back(ServeConnection, the_case, std::move(connection));
  }
  for (std::thread& thread : threads) thread.join();
}

std::unique_ptr<Exchange> MakeTcp(const Case& the_case, Shared& shared, int) {
  return std::make_unique<TcpExchange>(the_case, shared);
}

}  // namespace tfdist::runtime::bench
