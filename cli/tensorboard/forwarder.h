// A port of this machine whose connections go on to a port of a host, through SSH.
#pragma once

#include <condition_variable>
#include <deque>
#include <optional>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/thread_annotations.h"
#include "base/unique_fd.h"
#include "cli/plan/plan.h"

namespace tfdist::cli {

// Listens at 127.0.0.1, while an object of this class lives. Up to 8 connections at a time, each on a
// thread and an SSH connection of its own, which later ones use again; more of them wait.
class Forwarder {
 public:
  // To `remote_port` of the host's 127.0.0.1. `local_port`: 0 is any free one. Throws Error(kConnect)
  // when it cannot listen there. `host` is not a local one; both outlive this object.
  Forwarder(const HostPlan& host, const SshOptions& ssh, int remote_port, int local_port);
  Forwarder(const Forwarder&) = delete;
  Forwarder& operator=(const Forwarder&) = delete;
  // Cuts all connections. Waits for threads that are logging in, at most 15 s.
  ~Forwarder();

  [[nodiscard]] int port() const { return port_; }
  // Why a connection could not be passed on, once for each new reason.
  std::optional<Error> TakeFailure();

 private:
  static constexpr size_t kMostAtATime = 8;

  void Accept();
  void Take(UniqueFd connection);
  void Serve();
  // The next connection to be served; an invalid one: all is to end.
  UniqueFd Next();
  void Note(const Error& error);

  const HostPlan& host_;
  const SshOptions& ssh_;
  int remote_port_;
  UniqueFd listener_;
  int port_ = 0;
  UniqueFd stop_;  // readable once all is to end
  Mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<UniqueFd> waiting_ GUARDED_BY(mutex_);
  size_t idle_ GUARDED_BY(mutex_) = 0;  // threads that wait for a connection
  bool ending_ GUARDED_BY(mutex_) = false;
  std::string last_failure_ GUARDED_BY(mutex_);
  std::optional<Error> failure_ GUARDED_BY(mutex_);  // not taken yet
  std::vector<std::thread> servers_ GUARDED_BY(mutex_);
  std::thread acceptor_;
};

}  // namespace tfdist::cli
