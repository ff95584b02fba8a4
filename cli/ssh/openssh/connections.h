// How many channels share a connection of the user's ssh program.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/thread_annotations.h"
#include "cli/ssh/openssh/openssh_failure.h"

namespace tfdist::ssh {

// A connection, logged in or not yet.
struct Master {
  Mutex mutex;                  // of one login at a time; its holder works against its own deadline
  std::string socket;           // never changes
  std::atomic<int> logins = 0;  // that have ended
  std::optional<LoginFailure> failure GUARDED_BY(mutex);  // of the last one
  std::atomic<TimePoint> channel_ended = TimePoint{};  // the last one that the host has not refused
};

// A channel of a connection. Lives as long as its ssh program.
struct MasterChannel {
  MasterChannel(std::shared_ptr<Master> its_master, std::shared_ptr<const void> its_count)
      : master(std::move(its_master)), count(std::move(its_count)) {}
  MasterChannel(const MasterChannel&) = delete;
  MasterChannel& operator=(const MasterChannel&) = delete;
  ~MasterChannel() {
    if (!refused) master->channel_ended = SystemClock().Now();
  }

  const std::shared_ptr<Master> master;
  const std::shared_ptr<const void> count;  // among all of this process
  std::atomic<bool> refused = false;
};

// Those to one host. For one thread at a time.
class Connections {
 public:
  // `most` channels share one. A host that opens fewer is believed, down to `least`.
  Connections(long most, long least) : most_(most), least_(least) {}

  // A channel on a connection that has room; nullptr: none has.
  std::shared_ptr<MasterChannel> Join(const std::shared_ptr<const void>& count);
  // The first channel of a new one.
  std::shared_ptr<MasterChannel> Begin(std::shared_ptr<Master> master,
                                       const std::shared_ptr<const void>& count);
  // The host has opened no session for it. Says how many other channels are on its connection: from now on none gets more.
  long Refuse(MasterChannel& channel);
  // Nobody joins this one any more.
  void Leave(const Master& master);

 private:
  struct Connection {
    std::shared_ptr<Master> master;
    std::vector<std::weak_ptr<MasterChannel>> channels;
  };
  static long Count(Connection& connection);

  std::vector<Connection> all_;
  long most_;
  const long least_;
};

}  // namespace tfdist::ssh
