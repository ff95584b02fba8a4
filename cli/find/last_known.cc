#include "cli/find/last_known.h"

#include <fmt/format.h>

#include "base/clock.h"
#include "cli/exit_codes.h"
#include "cli/find/other_hosts.h"
#include "cli/show/report.h"
#include "cli/stream/print.h"

namespace tfdist::cli {
namespace {

void PrintResult(const JobRecord& record, const Error& error) {
  const LastSeen& seen = record.last_seen;
  Print("job {}: {}", record.id, StateName(seen));
  if (seen.ended_ns != 0)
    Print(", {} ago", Span(WallClockNanoseconds() + seen.ahead_ns - seen.ended_ns));
  if (seen.ended_ns != 0 && seen.began_ns != 0) {
    Print(", after {}", Span(seen.ended_ns - seen.began_ns));
  }
  Print("\n");
  if (!seen.why.empty()) Print("  why: {}\n", seen.why);
  Print("  the last known result, from this machine's record: {}\n", error.what());
}

// The others say what became of their part.
void PrintOtherHosts(const JobRecord& record, const Error& error) {
  const LastSeen& seen = record.last_seen;
  const std::vector<HostsWord> words = AskOtherHosts(record);
  PrintError(WhyFirstIsSilent(record, error, words));
  Print("job {}: {} when its first host answered last{}\n", record.id, StateName(seen),
        seen.began_ns == 0 ? ""
                           : fmt::format("; it began {} ago", Span(WallClockNanoseconds() +
                                                                   seen.ahead_ns - seen.began_ns)));
  PrintWords(words, ": ");
}

}  // namespace

int PrintLastKnown(const JobRecord& record, const Error& error) {
  if (record.last_seen.is_over()) {
    PrintResult(record, error);
    return kExitSuccess;
  }
  PrintOtherHosts(record, error);
  return kExitHost;
}

nlohmann::json LastKnownJson(const JobRecord& record) {
  const LastSeen& seen = record.last_seen;
  const std::string state(StateName(seen));
  const bool is_decided = seen.stage == LastSeen::Stage::kEnded && seen.result != "gone";
  return {{"job", record.id},
          {"name", record.name},
          {"state", state},
          {"started_by", record.started_by},
          {"live", false},
          {"last_known", true},
          {"attempt", 0},
          {"event_log", ""},
          {"result", is_decided ? seen.result : ""},
          {"why", seen.why},
          {"first_task", ""},
          {"collateral", nlohmann::json::array()},
          {"tasks", nlohmann::json::array()},
          {"hosts", nlohmann::json::array()},
          {"look", nullptr}};
}

}  // namespace tfdist::cli
