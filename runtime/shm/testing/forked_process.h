// A copy of this process that runs one function. Only while this one has no further threads.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/shm/offer.h"
#include "runtime/shm/ring_pair.h"

namespace tfdist::runtime::shm::testing {

class ForkedProcess {
 public:
  // Its exit code is what `body` returns; 98 when an expectation in it failed, 99 after an
  // exception, which it prints.
  explicit ForkedProcess(const std::function<int()>& body);
  ForkedProcess(ForkedProcess&& other) noexcept;
  ForkedProcess& operator=(ForkedProcess&&) = delete;
  // Kills it if it still runs.
  ~ForkedProcess();

  void Kill() const;
  // Its exit code; 128 + signal when one ended it, SIGKILL after `limit`. Calls `meanwhile` all the
  // time, and once more when the process has ended.
  int Wait(
      std::chrono::seconds limit, const std::function<void()>& meanwhile = [] {});

 private:
  pid_t pid_ = -1;
};

TimePoint In(std::chrono::milliseconds time);

// The server's end of a connection to a forked process that runs `client` on the other end, and
// that process. Throws when they do not come together.
struct Served {
  ForkedProcess process;
  RingPair connection;
  std::string offer;
};
// `shared`: memory of the client's.
Served ServeForked(size_t ring_bytes, const std::function<int(RingPair)>& client,
                   const std::shared_ptr<const SharedMemory>& shared = nullptr);

// Waits for the server's answer to a call.
Call::Result CallWith(std::string_view offer, TimePoint deadline,
                      std::shared_ptr<const SharedMemory> shared = nullptr);
// Waits for the client of an offer.
std::optional<RingPair> WaitForClient(Offer& offer, TimePoint deadline);

}  // namespace tfdist::runtime::shm::testing
