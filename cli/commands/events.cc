#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include "cli/commands/commands.h"
#include "cli/commands/exit_codes.h"
#include "cli/commands/find_job.h"
#include "cli/commands/job_view.h"
#include "cli/stream/print.h"

namespace tfdist::cli {
namespace {

using protocol::Event;
using protocol::Json;
namespace event = protocol::event;

constexpr int64_t kSecond = 1'000'000'000;

std::string HostName(const JobRecord& record, const Json& slot) {
  return record.hosts.at(slot.get<size_t>()).name;
}

// What happened, in words; empty for a kind of the future.
std::string Words(const JobRecord& record, const Event& event) {
  const Json& fields = event.fields;
  if (event.kind == event::kCommitted) return "committed";
  if (event.kind == event::kAttempt)
    return fmt::format("attempt {}", fields.at("attempt").get<int>());
  if (event.kind == event::kHost) {
    return fmt::format("host {}: {} {}", HostName(record, fields.at("slot")),
                       fields.at("state").get<std::string>(), fields.value("why", ""));
  }
  if (event.kind == event::kTask) {
    const auto task = fields.at("task").get<std::string>();
    if (fields.at("state") == "started") {
      return fmt::format("task {}: started, pid {}", task, fields.at("pid").get<int>());
    }
    return fmt::format("task {}: {}", task, Describe(fields.at("exit").get<protocol::TaskExit>()));
  }
  if (event.kind == event::kStopping) {
    return fmt::format("stopping: {}: {}", fields.at("result").get<std::string>(),
                       fields.value("why", ""));
  }
  if (event.kind == event::kCensus) {
    const auto census = fields.get<protocol::Census>();
    return fmt::format("census {}: {} killed, {} left", HostName(record, fields.at("slot")),
                       census.killed.size(), census.left.size());
  }
  if (event.kind == event::kEnded) {
    return fmt::format("ended: {}", fields.at("result").get<std::string>());
  }
  return {};
}

void PrintEvent(const JobRecord& record, const Event& event, bool json) {
  if (json) {
    PrintLines(Json(event).dump(-1, ' ', true, Json::error_handler_t::replace) + "\n");
    return;
  }
  Print("{:%Y-%m-%dT%H:%M:%S}.{:03}Z {:>4}  {}\n",
        fmt::gmtime(static_cast<time_t>(event.time_ns / kSecond)), event.time_ns / 1'000'000 % 1000,
        event.number, Words(record, event));
}

}  // namespace

int EventsCommand(const EventsArguments& arguments) {
  const JobRecord record = FindJob(arguments.job, Purpose::kToLook);
  LookAt(record, [&](const Event& event) { PrintEvent(record, event, arguments.json); });
  return kExitSuccess;
}

}  // namespace tfdist::cli
