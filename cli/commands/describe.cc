// `tfdist describe [JOB]`: what a job was started with, from this machine's record; without one, what its hosts know.

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "cli/commands/commands.h"
#include "cli/exit_codes.h"
#include "cli/find/begun.h"
#include "cli/find/find_job.h"
#include "cli/render/table.h"
#include "cli/show/print_json.h"
#include "cli/show/report.h"
#include "cli/stream/host_fold.h"
#include "cli/stream/print.h"

namespace tfdist::cli {
namespace {

using nlohmann::json;
using Rows = std::vector<std::vector<std::string>>;

std::string WorkdirWords(const JobOrigin& origin) {
  constexpr size_t kHashDigits = 12;
  return fmt::format("{} (content {})", origin.workdir, origin.workdir_hash.substr(0, kHashDigits));
}

std::string GitWords(const JobOrigin& origin) {
  return fmt::format("commit {}{}", origin.git_commit,
                     origin.git_changed ? ", with changes that are in no commit" : "");
}

// Tasks with one command, in the plan's order.
std::vector<std::pair<std::string, std::vector<std::string>>> TasksByCommand(
    const JobRecord& record) {
  std::vector<std::pair<std::string, std::vector<std::string>>> groups;
  for (const JobRecord::Task& task : record.tasks) {
    auto group = std::ranges::find(groups, task.command, &decltype(groups)::value_type::first);
    if (group == groups.end()) group = groups.insert(groups.end(), {task.command, {}});
    group->second.push_back(task.id);
  }
  return groups;
}

// "gpus all, grace 10s".
std::string WordsOf(const Settings& settings) {
  std::vector<std::string> words;
  for (const auto& [key, value] : settings) {
    if (key != "host") words.push_back(fmt::format("{} {}", key, value));
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

// A line, or as many as the terminal's width asks for.
void PrintFact(std::string_view name, const std::string& text) {
  constexpr size_t kMargin = 12;
  const size_t columns = StdoutColumns();
  const std::vector<std::string> lines =
      columns > 2 * kMargin ? Wrapped(text, columns - kMargin) : std::vector{text};
  Print("  {:<{}}{}\n", name, kMargin - 2, lines[0]);
  for (size_t at = 1; at < lines.size(); ++at) Print("{:{}}{}\n", "", kMargin, lines[at]);
}

void PrintFacts(const JobRecord& record) {
  const JobOrigin& origin = record.origin;
  const std::string not_begun = WhyNotBegun(record).value_or("");
  Print("job {}: {}{}{}\n", record.id, StateWithWhy(record.last_seen),
        not_begun.empty() ? "" : ": ", not_begun);
  PrintFact("started:", fmt::format("{}{}{}", record.created, record.file.empty() ? "" : " from ",
                                    record.file.string()));
  if (!record.started_by.empty()) PrintFact("from:", record.started_by);
  if (!IsKnownHere(record.id)) {
    Print("  no record of it is here: this is what its hosts know{}\n",
          record.file.empty() ? "" : ", and its plan is that of the file");
  }
  if (!origin.workdir.empty()) PrintFact("workdir:", WorkdirWords(origin));
  if (!origin.git_commit.empty()) PrintFact("git:", GitWords(origin));
  if (!origin.version.empty()) PrintFact("by:", origin.version);
  PrintFact("plan:", record.plan_sha256);
  if (!record.settings.empty()) PrintFact("settings:", WordsOf(record.settings));
  for (const auto& [key, value] : record.labels)
    PrintFact("label:", fmt::format("{}={}", key, value));
  for (const auto& [command, tasks] : TasksByCommand(record)) {
    Print("  command:  {}: {}\n", FoldHosts(tasks), command.empty() ? "not known" : command);
  }
}

Rows PlacesOf(const JobRecord& record) {
  Rows rows = {{"TASK", "HOST", "AS STARTED"}};
  for (const JobRecord::Task& task : record.tasks) {
    const HostPlan& host = record.hosts.at(static_cast<size_t>(task.slot));
    rows.push_back({Harmless(task.id), Harmless(host.name),
                    task.settings.empty() ? "-" : Harmless(WordsOf(task.settings))});
  }
  return rows;
}

json DescriptionOf(const JobRecord& record) {
  json tasks = json::array();
  for (const JobRecord::Task& task : record.tasks) {
    const HostPlan& host = record.hosts.at(static_cast<size_t>(task.slot));
    tasks.push_back({{"task", task.id}, {"host", host.name}, {"command", task.command}});
  }
  return {{"job", record.id},
          {"name", record.name},
          {"state", StateName(record.last_seen)},
          {"created", record.created},
          {"started_by", record.started_by},
          {"file", record.file.string()},
          {"workdir", record.origin.workdir},
          {"workdir_sha256", record.origin.workdir_hash},
          {"git_commit", record.origin.git_commit},
          {"git_changed", record.origin.git_changed},
          {"version", record.origin.version},
          {"plan_sha256", record.plan_sha256},
          {"labels", record.labels},
          {"tasks", tasks}};
}

}  // namespace

int DescribeCommand(const DescribeArguments& arguments) {
  const JobRecord record = FindJob(arguments.job, Deed::kLook);
  if (arguments.json) {
    PrintJson(DescriptionOf(record));
    return kExitSuccess;
  }
  PrintFacts(record);
  PrintLines(AlignColumns(PlacesOf(record), StdoutColumns()));
  return kExitSuccess;
}

}  // namespace tfdist::cli
