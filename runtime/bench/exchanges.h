// The same exchange three times: over a bare TCP connection, over bare ZeroMQ sockets, and as calls
// of a client. The first two are what the third cannot, or should not, fall far behind: the payload
// is neither read nor copied where it arrives.
#pragma once

#include <memory>

#include "runtime/bench/harness.h"

namespace tfdist::runtime::bench {

// What a message without a library needs at least.
struct BareHeader {
  uint32_t index = 0;
  uint32_t answer_bytes = 0;
  uint64_t payload_bytes = 0;
};

void ServeTcp(const Case& the_case, Shared& shared, int server);
std::unique_ptr<Exchange> MakeTcp(const Case& the_case, Shared& shared, int worker);

// Header and payload as two frames, the payload sent from where it lies; DEALER to ROUTER.
void ServeZmq(const Case& the_case, Shared& shared, int server);
std::unique_ptr<Exchange> MakeZmq(const Case& the_case, Shared& shared, int worker);

// Variables of the size of a call, one for each buffer, and SGD on the servers. With
// `variables_per_call` above 1 a call is about that many small ones, which have the size together.
class Own {
 public:
  Own(const Case& the_case, int variables_per_call);
  void Serve(const Case& the_case, Shared& shared, int server) const;
  std::unique_ptr<Exchange> Make(const Case& the_case, Shared& shared, int worker) const;

 private:
  struct Job;
  std::shared_ptr<Job> job_;
};

}  // namespace tfdist::runtime::bench
