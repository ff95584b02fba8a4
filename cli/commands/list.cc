#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "cli/commands/commands.h"
#include "cli/exit_codes.h"
#include "cli/find/last_seen.h"
#include "cli/job/job_record.h"
#include "cli/show/print_json.h"
#include "cli/show/report.h"
#include "cli/stream/print.h"

namespace tfdist::cli {
namespace {

using nlohmann::json;

json RowJson(const JobRecord& record) {
  return {{"job", record.id},
          {"name", record.name},
          {"state", StateName(record.last_seen)},
          {"why", record.last_seen.why},
          {"created", record.created},
          {"ended_ns", record.last_seen.ended_ns},
          {"host_count", record.hosts.size()},
          {"task_count", record.tasks.size()},
          {"file", record.file.string()}};
}

void PrintRow(const JobRecord& record) {
  Print("{:<44} {:<12} {:>8} {:>5} {:>5}  {}\n", record.id, StateName(record.last_seen),
        Span(WallClockNanoseconds() - CreatedNanoseconds(record)), record.hosts.size(),
        record.tasks.size(), record.file.string());
}

}  // namespace

int ListCommand(const ListArguments& arguments) {
  std::vector<JobRecord> records = LoadRecords();
  LookAgain(records);
  if (arguments.json) {
    json jobs = json::array();
    for (const JobRecord& record : records) jobs.push_back(RowJson(record));
    PrintJson(jobs);
    return kExitSuccess;
  }
  if (records.empty()) {
    Print("no job is known on this machine\n");
    return kExitSuccess;
  }
  Print("{:<44} {:<12} {:>8} {:>5} {:>5}  {}\n", "JOB", "STATE", "AGE", "HOSTS", "TASKS", "FILE");
  for (const JobRecord& record : records) PrintRow(record);
  return kExitSuccess;
}

}  // namespace tfdist::cli
