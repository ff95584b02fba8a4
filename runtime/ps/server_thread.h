// One thread of a parameter server: the variables that it owns, the socket on which they are asked
// for, and the loop that answers. Shares nothing with the server's other threads.
#pragma once

#include <poll.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "runtime/ps/service/service.h"
#include "runtime/server.h"
#include "runtime/shm/wake.h"
#include "runtime/transport/shm_listener.h"

namespace tfdist::runtime {

// One thread at a time.
class ServerThread {
 public:
  // Listens on `endpoint`. Throws Error(kPorts).
  ServerThread(const ServerOptions& options, const std::string& endpoint);
  // Where the others listen, for trainers who ask this one.
  void SetPorts(std::vector<uint16_t> ports) { service_.SetPorts(std::move(ports)); }

  // Serves until one of the descriptors is readable. Throws Error(kInternal).
  void Run(int stop_fd, int other_stop_fd);

  [[nodiscard]] ServerCounters counters() const;
  [[nodiscard]] std::string Endpoint() const { return listener_.Endpoint(); }

 private:
  bool AnswerWhatHasArrived();
  void AnswerWhatIsSaved();
  void SendReplies();
  int TickWhenDue();
  void Wait(int timeout);
  bool SpinForInput();
  void Sleep(int timeout);

  Service service_;  // before the listener: messages that it still sends refer to the values
  ShmListener listener_;
  std::vector<pollfd> items_;  // first those that tell to end, then that of checkpoints
  shm::SpinHabit spin_habit_;
  uint64_t waits_ = 0;
  Peer peer_;
  Message message_;
  std::vector<Outgoing> replies_;
  std::optional<TimePoint> next_tick_;
  uint64_t unread_ = 0;
  uint64_t queue_ = 0;
  uint64_t longest_queue_ = 0;
  double idle_seconds_ = 0;
  double busy_seconds_ = 0;
};

}  // namespace tfdist::runtime
