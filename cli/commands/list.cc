#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/commands/commands.h"
#include "cli/commands/exit_codes.h"
#include "cli/job/job_record.h"

namespace tfdist::cli {

int ListCommand(const ListArguments& arguments) {
  const std::vector<JobRecord> records = LoadRecords();
  if (arguments.json) {
    nlohmann::json jobs = nlohmann::json::array();
    for (const JobRecord& record : records) {
      jobs.push_back({{"job", record.id},
                      {"name", record.name},
                      {"created", record.created},
                      {"hosts", record.hosts.size()},
                      {"tasks", record.tasks.size()},
                      {"file", record.file.string()}});
    }
    fmt::print("{}\n", jobs.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    return kExitSuccess;
  }
  if (records.empty()) {
    fmt::print("no job is known on this machine\n");
    return kExitSuccess;
  }
  fmt::print("{:<44} {:<21} {:>5} {:>5}  {}\n", "JOB", "CREATED", "HOSTS", "TASKS", "FILE");
  for (const JobRecord& record : records) {
    fmt::print("{:<44} {:<21} {:>5} {:>5}  {}\n", record.id, record.created.substr(0, 19) + "Z",
               record.hosts.size(), record.tasks.size(), record.file.string());
  }
  return kExitSuccess;
}

}  // namespace tfdist::cli
