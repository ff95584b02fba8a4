// What a server has done so far.
#pragma once

#include <cstdint>

namespace tfdist::runtime {

struct ServiceCounters {
  uint64_t pulls = 0;       // requests for variables, however many parts they have
  uint64_t pushes = 0;      // applied, or counted into a mean; one sent again counts once
  uint64_t stale = 0;       // pushes dropped, all of them or in part
  uint64_t updates = 0;     // steps: a push applied, or a mean of several
  double held_seconds = 0;  // that trainers were held back, all together
  uint64_t lost = 0;        // times that a trainer was waited for no more
  uint64_t received_bytes = 0;
  uint64_t sent_bytes = 0;
  uint64_t refused = 0;
  uint64_t repeated = 0;  // parts of pushes that had been applied before
  uint64_t pulled_rows = 0;
  uint64_t pushed_rows = 0;  // applied
  uint64_t strangers = 0;    // messages of connections that had not said hello, dropped
  // Of now, for replies: as Reply has them.
  uint32_t queue = 0;
  uint32_t held = 0;
  uint64_t idle_microseconds = 0;
  bool is_over = false;
};

}  // namespace tfdist::runtime
