// Where the chief's measurements go: a file of JSON lines, TensorBoard's event files, a status line.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "runtime/client.h"
#include "runtime/common/say.h"
#include "runtime/summary/event_file.h"
#include "runtime/trainer/progress.h"
#include "runtime/trainer/training_options.h"

namespace tfdist::runtime {

// One thread. Borrows what it is made with.
class Reports {
 public:
  // Opens the files: lines are appended to one that is there. Throws Error(kFiles).
  Reports(const ReportOptions& options, uint64_t last_step, const Say& say);

  // Somebody reads measurements.
  [[nodiscard]] bool wanted() const { return metrics_.valid() || events_ || options_.status; }
  // A file that cannot be written is said, and is written no more: training goes on.
  void Add(const Measurement& measurement);

 private:
  const ReportOptions& options_;
  uint64_t last_step_;
  const Say& say_;
  UniqueFd metrics_;
  std::optional<EventFile> events_;
};

// {"step":500,"time":1795000000.123,"loss":0.17,...}: docs/json.md has all keys.
std::string JsonLine(const Measurement& measurement, double wall_time);

// "step 500 of 2000, loss 0.1648, test accuracy 0.9500, 6756 steps/s, 73.0 MB/s"
std::string StatusText(const Measurement& measurement, uint64_t last_step);

// What the servers have done for this trainer: a table, line by line.
std::vector<std::string> ServerTable(const std::vector<ServerTraffic>& traffic);

}  // namespace tfdist::runtime
