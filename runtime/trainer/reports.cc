#include "runtime/trainer/reports.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"

namespace tfdist::runtime {
namespace {

std::vector<Scalar> ScalarsOf(const Measurement& measurement) {
  std::vector<Scalar> scalars;
  const auto add = [&](const std::string& tag, double value) {
    scalars.push_back({tag, static_cast<float>(value)});
  };
  if (measurement.loss) add("loss/train", *measurement.loss);
  if (measurement.quality) {
    add("loss/" + measurement.samples, measurement.quality->loss);
    add("accuracy/" + measurement.samples, measurement.quality->accuracy);
  }
  add("learning_rate", measurement.learning_rate);
  add("speed/steps_per_second", measurement.steps_per_second);
  add("speed/bytes_per_second", measurement.bytes_per_second);
  if (measurement.staleness) add("speed/staleness", *measurement.staleness);
  add("speed/waiting", measurement.waiting);
  for (const ServerRate& server : measurement.servers) {
    add("server_bytes_per_second/" + server.server, server.bytes_per_second);
    add("server_queue/" + server.server, static_cast<double>(server.queue));
    add("server_held/" + server.server, static_cast<double>(server.held));
    add("server_load/" + server.server, server.load);
  }
  return scalars;
}

std::string ReadableBytes(double bytes) {
  if (bytes < 1e6) return fmt::format("{:.1f} kB", bytes / 1e3);
  return bytes < 1e9 ? fmt::format("{:.1f} MB", bytes / 1e6)
                     : fmt::format("{:.1f} GB", bytes / 1e9);
}

// Calls `write`; when it fails says so and returns false.
template <typename Write>
bool TryToWrite(const Say& say, Write write) {
  try {
    write();
    return true;
  } catch (const Error& error) {
    say(fmt::format("warning: {}; it is written no more", error.cause()));
    return false;
  }
}

}  // namespace

Reports::Reports(const ReportOptions& options, uint64_t last_step, const Say& say)
    : options_(options), last_step_(last_step), say_(say) {
  if (!options.metrics.empty()) {
    metrics_ = OpenFile(options.metrics, O_WRONLY | O_CREAT | O_APPEND, 0644);
  }
  if (!options.summaries.empty()) events_.emplace(options.summaries);
}

void Reports::Add(const Measurement& measurement) {
  if (metrics_.valid()) {
    const double now = static_cast<double>(WallClockNanoseconds()) / 1e9;
    const auto write = [&] {
      WriteAll(metrics_.get(), JsonLine(measurement, now) + "\n", options_.metrics.string());
    };
    if (!TryToWrite(say_, write)) metrics_ = UniqueFd();
  }
  if (events_) {
    const auto write = [&] {
      events_->Add(static_cast<int64_t>(measurement.step), ScalarsOf(measurement));
    };
    if (!TryToWrite(say_, write)) events_.reset();
  }
  if (options_.status) options_.status(StatusText(measurement, last_step_));
}

std::string JsonLine(const Measurement& measurement, double wall_time) {
  nlohmann::ordered_json line;
  line["step"] = measurement.step;
  line["time"] = wall_time;
  if (measurement.loss) line["loss"] = *measurement.loss;
  if (measurement.quality) {
    line[measurement.samples + "_accuracy"] = measurement.quality->accuracy;
    line[measurement.samples + "_loss"] = measurement.quality->loss;
  }
  line["learning_rate"] = measurement.learning_rate;
  line["steps_per_second"] = measurement.steps_per_second;
  line["bytes_per_second"] = measurement.bytes_per_second;
  if (measurement.staleness) line["staleness"] = *measurement.staleness;
  line["waiting"] = measurement.waiting;
  line["servers"] = nlohmann::ordered_json::array();
  for (const ServerRate& server : measurement.servers) {
    line["servers"].push_back({{"server", server.server},
                               {"bytes_per_second", server.bytes_per_second},
                               {"queue", server.queue},
                               {"held", server.held},
                               {"load", server.load}});
  }
  return line.dump();
}

std::string StatusText(const Measurement& measurement, uint64_t last_step) {
  std::string text = fmt::format("step {} of {}", measurement.step, last_step);
  if (measurement.loss) text += fmt::format(", loss {:.4f}", *measurement.loss);
  if (measurement.quality) {
    text += fmt::format(", {} accuracy {:.4f}", measurement.samples, measurement.quality->accuracy);
  }
  return text + fmt::format(", {:.0f} steps/s, {}/s", measurement.steps_per_second,
                            ReadableBytes(measurement.bytes_per_second));
}

std::vector<std::string> ServerTable(const std::vector<ServerTraffic>& traffic) {
  double all = 0;
  double most = 0;
  for (const ServerTraffic& server : traffic) {
    const auto bytes = static_cast<double>(server.sent_bytes + server.received_bytes);
    all += bytes;
    most = std::max(most, bytes);
  }
  std::vector<std::string> lines = {
      fmt::format("{:<8}{:>12}{:>12}{:>12}{:>8}", "server", "holds", "sent", "received", "load")};
  for (const ServerTraffic& server : traffic) {
    const auto sent = static_cast<double>(server.sent_bytes);
    const auto received = static_cast<double>(server.received_bytes);
    lines.push_back(fmt::format("{:<8}{:>12}{:>12}{:>12}{:>6.1f} %", server.server,
                                ReadableBytes(static_cast<double>(server.held_bytes)),
                                ReadableBytes(sent), ReadableBytes(received),
                                100 * (sent + received) / std::max(all, 1.0)));
  }
  lines.push_back(fmt::format("balance: the server with the largest load has {:.2f} times the mean",
                              most * static_cast<double>(traffic.size()) / std::max(all, 1.0)));
  return lines;
}

}  // namespace tfdist::runtime
