// A TCP relay to a port of 127.0.0.1 that can cut its connections and remembers what the server
// said.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <thread>

#include "base/thread_annotations.h"
#include "base/unique_fd.h"
#include "runtime/testing/loopback.h"

namespace tfdist::runtime::testing {

class TcpProxy {
 public:
  // For clients that learn ports only: at this address the proxy has the port of its target.
  static constexpr const char* kOtherHost = "127.0.0.3";

  // Listens on a port of its own and relays to `target_port`.
  explicit TcpProxy(int target_port) : TcpProxy(target_port, Loopback(0)) {}
  // Listens on the same port of kOtherHost.
  static std::unique_ptr<TcpProxy> AtOtherHost(int target_port);
  TcpProxy(const TcpProxy&) = delete;
  TcpProxy& operator=(const TcpProxy&) = delete;
  ~TcpProxy();

  [[nodiscard]] int port() const { return port_; }
  // Closes all connections each time that another `bytes` bytes of the server have passed.
  void CutEvery(size_t bytes) { cut_every_bytes_ = bytes; }
  // Waits until there is a connection, and closes all. Throws when none comes within a minute.
  void Cut();
  [[nodiscard]] int cuts() const { return cuts_; }
  // All that the server has sent, of all connections in order of arrival.
  [[nodiscard]] std::string FromServer() const;

 private:
  TcpProxy(int target_port, sockaddr_in listen_at);

  struct Connection {
    UniqueFd client;
    UniqueFd server;
    bool open = true;
  };

  void Run();
  void Accept();
  void Relay(Connection& connection);
  bool Pass(int from, int to, bool from_server);
  void CutWhenDue();
  [[nodiscard]] bool CutIsDue() REQUIRES(mutex_);

  int target_port_;
  int port_ = 0;
  UniqueFd listener_;
  UniqueFd wake_;
  std::atomic<bool> stop_{false};
  std::list<Connection> connections_;       // of thread_ alone
  std::atomic<size_t> cut_every_bytes_{0};  // 0: never
  std::atomic<int> cuts_{0};
  mutable Mutex mutex_;
  size_t since_cut_bytes_ GUARDED_BY(mutex_) = 0;
  std::string from_server_ GUARDED_BY(mutex_);
  bool cut_wanted_ GUARDED_BY(mutex_) = false;
  std::condition_variable_any cut_made_;
  std::thread thread_;
};

}  // namespace tfdist::runtime::testing
