#include "runtime/trainer/progress.h"

#include <algorithm>
#include <chrono>

namespace tfdist::runtime {
namespace {

constexpr std::chrono::seconds kBetweenMeasurements{1};

uint64_t TrafficBytes(const ServerTraffic& traffic) {
  return traffic.sent_bytes + traffic.received_bytes;
}

}  // namespace

Progress::Progress(const Client& client, uint64_t step) : client_(client) { Begin(step); }

void Progress::Begin(uint64_t step) {
  begin_ = SystemClock().Now();
  first_step_ = step;
  blocked_before_ = client_.counters().blocked_seconds;
  traffic_before_ = client_.traffic();
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
  for (size_t i = 0; i < traffic.size(); ++i) {
    const auto bytes =
        static_cast<double>(TrafficBytes(traffic[i]) - TrafficBytes(traffic_before_[i]));
    measurement.servers.push_back({traffic[i].server, bytes / seconds});
    measurement.bytes_per_second += bytes / seconds;
  }
  if (own_steps_ > 0) {
    const auto own_steps = static_cast<double>(own_steps_);
    measurement.loss = losses_ / own_steps;
    measurement.staleness = static_cast<double>(steps_of_others_) / own_steps;
  }
  Begin(step);
  return measurement;
}

}  // namespace tfdist::runtime
