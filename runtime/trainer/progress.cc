#include "runtime/trainer/progress.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace tfdist::runtime {
namespace {

constexpr std::chrono::seconds kBetweenMeasurements{1};

uint64_t TrafficBytes(const ServerTraffic& traffic) {
  return traffic.sent_bytes + traffic.received_bytes;
}

// Of the time between two replies.
double BusyShare(const ServerLoad& before, const ServerLoad& now) {
  const std::chrono::duration<double> passed = now.replied - before.replied;
  if (passed.count() <= 0) return 0;
  return std::clamp(1 - (now.idle_seconds - before.idle_seconds) / passed.count(), 0.0, 1.0);
}

}  // namespace

Progress::Progress(Client& client, uint64_t step) : client_(client) {
  Begin(step, client_.TakeLoads());
}

void Progress::Begin(uint64_t step, std::vector<ServerLoad> loads) {
  begin_ = SystemClock().Now();
  first_step_ = step;
  blocked_before_ = client_.counters().blocked_seconds;
  traffic_before_ = client_.traffic();
  loads_before_ = std::move(loads);
  own_steps_ = 0;
  losses_ = 0;
  steps_of_others_ = 0;
}

void Progress::AddStep(float loss, uint64_t before, uint64_t after) {
  ++own_steps_;
  losses_ += loss;
  steps_of_others_ += after > before + 1 ? after - before - 1 : 0;
}

bool Progress::IsDue() const { return SystemClock().Now() - begin_ >= kBetweenMeasurements; }

Measurement Progress::Take(uint64_t step) {
  const std::chrono::duration<double> passed = SystemClock().Now() - begin_;
  const double seconds = std::max(passed.count(), 1e-9);
  Measurement measurement;
  measurement.step = step;
  measurement.steps_per_second = static_cast<double>(step - first_step_) / seconds;
  measurement.waiting =
      std::min(1.0, (client_.counters().blocked_seconds - blocked_before_) / seconds);
  const std::vector<ServerTraffic> traffic = client_.traffic();
  std::vector<ServerLoad> loads = client_.TakeLoads();
  for (size_t i = 0; i < traffic.size(); ++i) {
    const auto bytes =
        static_cast<double>(TrafficBytes(traffic[i]) - TrafficBytes(traffic_before_[i]));
    measurement.servers.push_back({traffic[i].server, bytes / seconds, loads[i].longest_queue,
                                   loads[i].most_held, BusyShare(loads_before_[i], loads[i])});
    measurement.bytes_per_second += bytes / seconds;
  }
  if (own_steps_ > 0) {
    const auto own_steps = static_cast<double>(own_steps_);
    measurement.loss = losses_ / own_steps;
    measurement.staleness = static_cast<double>(steps_of_others_) / own_steps;
  }
  Begin(step, std::move(loads));
  return measurement;
}

}  // namespace tfdist::runtime
