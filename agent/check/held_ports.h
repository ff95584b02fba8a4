// The ports of the plan on this host, held while the hosts of a check dial each other, and an answer for those who dial
// them.
#pragma once

#include <poll.h>

#include <list>
#include <string>
#include <thread>
#include <vector>

#include "agent/check/handshake.h"
#include "base/clock.h"
#include "base/unique_fd.h"

namespace tfdist::agent {

// Serves on a thread of its own, so that others may dial while this host does something else. Says
// nothing to a stranger. Once it is gone, any server can have the ports at once.
class HeldPorts {
 public:
  HeldPorts(const Handshake& handshake, int slot) : handshake_(handshake), slot_(slot) {}
  HeldPorts(const HeldPorts&) = delete;
  HeldPorts& operator=(const HeldPorts&) = delete;
  // Closes the ports.
  ~HeldPorts();

  // A listening socket, non-blocking or not. Before Serve.
  void Add(UniqueFd listener, int port);
  void Serve();

 private:
  struct Listener {
    UniqueFd fd;
    int port = 0;
  };
  struct Caller {
    UniqueFd fd;
    int port = 0;
    TimePoint limit;
    std::string question;
  };

  void Loop();
  void AcceptAll(const std::vector<pollfd>& fds);
  void Accept(const Listener& listener);
  // False: there is nothing more to be said to it.
  bool Hear(Caller& caller) const;
  [[nodiscard]] TimePoint NextLimit() const;

  const Handshake& handshake_;
  int slot_;
  std::vector<Listener> listeners_;
  TimePoint accept_from_{};    // later than now: there were no descriptors left
  std::list<Caller> callers_;  // the oldest first
  UniqueFd stop_;              // eventfd
  std::thread thread_;
};

}  // namespace tfdist::agent
