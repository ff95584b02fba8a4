// What a trainer sees of the training as it goes on: rates and means since it last looked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "runtime/client.h"
#include "runtime/model/sequential.h"

namespace tfdist::runtime {

struct ServerRate {
  std::string server;  // "ps:1"
  double bytes_per_second = 0;
  uint64_t queue = 0;  // the most messages that it answered without a pause, of all trainers
  uint64_t held = 0;   // the most answers that it held back at a time, until others had pushed
  double load = 0;     // share of the time that it was busy
};

// Rates and means are those of the time since the measurement before.
struct Measurement {
  uint64_t step = 0;  // the global one
  float learning_rate = 0;
  double steps_per_second = 0;  // of all trainers together
  double bytes_per_second = 0;  // to and from all servers, of this trainer
  double waiting = 0;           // share of the time that this trainer has waited for servers
  std::vector<ServerRate> servers;
  // Of this trainer's own steps; absent when it has made none.
  std::optional<double> loss;       // of its batches
  std::optional<double> staleness;  // steps of others between the values and their gradients
  // Of an evaluation at this step, and which samples it was about: "test" or "validation".
  std::optional<Quality> quality;
  std::string samples;
};

// One thread. Borrows the client.
class Progress {
 public:
  Progress(Client& client, uint64_t step);

  // A step of this trainer's own: from values of step `before`; `after` is the global step with it.
  void AddStep(float loss, uint64_t before, uint64_t after);
  // A measurement may be wanted again: a second has passed since the one before.
  [[nodiscard]] bool IsDue() const;
  // Begins anew.
  Measurement Take(uint64_t step);

 private:
  void Begin(uint64_t step, std::vector<ServerLoad> loads);

  Client& client_;
  TimePoint begin_;
  uint64_t first_step_ = 0;
  double blocked_before_ = 0;
  std::vector<ServerTraffic> traffic_before_;
  std::vector<ServerLoad> loads_before_;
  uint64_t own_steps_ = 0;
  double losses_ = 0;
  uint64_t steps_of_others_ = 0;
};

}  // namespace tfdist::runtime
