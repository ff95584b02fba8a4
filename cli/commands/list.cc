// `tfdist list`: jobs of this machine; `tfdist list FILE|-H HOSTS`: what runs on hosts, of any user.

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <utility>

#include "base/clock.h"
#include "base/failures.h"
#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/exit_codes.h"
#include "cli/find/adopt_job.h"
#include "cli/find/find_job.h"
#include "cli/find/last_seen.h"
#include "cli/find/sites.h"
#include "cli/hosts/fan_out.h"
#include "cli/job/job_record.h"
#include "cli/plan/host_count.h"
#include "cli/render/table.h"
#include "cli/show/print_json.h"
#include "cli/show/report.h"
#include "cli/stream/host_fold.h"
#include "cli/stream/print.h"
#include "job/layout.h"

namespace tfdist::cli {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

constexpr auto kListLimit = 30s;
// "USER ROLE FROM FOLDER" of each of tfdist's processes, of all users: its arguments name its slot's folder, .../jobs/JOB/hN. A holder is
// there while a task runs. FROM is who started the job, of this account's; else "-".
constexpr const char* kFindAgents = R"sh(
for file in $(grep -las '/jobs/[^/]*/h[0-9]' /proc/[0-9]*/cmdline); do
  words=$(tr '\0' '\n' <"$file" 2>/dev/null)
  case $words in tfdist-agent* | /*/agent*) ;; *) continue ;; esac
  folder=$(printf '%s\n' "$words" | grep '/jobs/[^/]*/h[0-9]' | head -n 1)
  info=$(printf '%s\n' "$folder" | sed 's|\(/jobs/[^/]*/h[0-9]*\).*|\1/slot.json|')
  from=
  if [ -f "$info" ] && [ -O "$info" ]; then from=$(sed -n 's/.*"started_by":"\([^"\\]*\)".*/\1/p' "$info"); fi
  role=$(printf '%s\n' "$words" | sed -n 2p)
  if [ "$role $(printf '%s\n' "$words" | sed -n 4p)" = 'holder set-up' ]; then role=set-up; fi
  printf '%s %s %s %s\n' "$(ls -ld "${file%/cmdline}" 2>/dev/null | awk '{print $3}')" "$role" "${from:--}" "$folder"
done
cat /proc/1/cmdline >/dev/null 2>&1 || echo hidden)sh";
// Its last line where /proc hides what other accounts run (hidepid in proc(5)).
constexpr std::string_view kHidden = "hidden\n";

// As `created`: jq reads numbers above 2^53 only nearly. Empty: not known.
std::string EndedText(const LastSeen& seen) {
  return seen.ended_ns == 0 ? "" : UtcText(seen.ended_here_ns());
}

// Hosts may still hold agents of one that never began; nothing of it starts any more.
std::string_view StateIn(const JobRecord& record) {
  LastSeen seen;
  seen.stage = LastSeen::Stage::kNotStarted;
  return StateName(HasNeverBegun(record) ? seen : record.last_seen);
}

json RowJson(const JobRecord& record) {
  return {{"job", record.id},
          {"name", record.name},
          {"state", StateIn(record)},
          {"why", record.last_seen.why},
          {"created", record.created},
          {"started_by", record.started_by},
          {"ended_ns", record.last_seen.ended_here_ns()},
          {"ended", EndedText(record.last_seen)},
          {"host_count", CountHosts(record.hosts)},
          {"task_count", record.tasks.size()},
          {"file", record.file.string()},
          {"command", record.tasks.empty() ? "" : record.tasks[0].command},
          {"labels", record.labels}};
}

// From its beginning to its end, or until now.
std::string Lasted(const JobRecord& record) {
  const LastSeen& seen = record.last_seen;
  if (seen.began_ns == 0) return "-";
  if (seen.is_over() && seen.ended_ns == 0) return "-";
  return Span((seen.is_over() ? seen.ended_ns : WallClockNanoseconds() + seen.ahead_ns) -
              seen.began_ns);
}

std::string StartedFrom(const JobRecord& record) {
  if (!record.file.empty()) return record.file.string();
  return record.tasks.empty() ? "-" : record.tasks[0].command;
}

// "lr=0.1, note=again"
std::string LabelText(const JobRecord& record) {
  std::string text;
  for (const auto& [key, value] : record.labels) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", key, value);
  }
  return text.empty() ? "-" : text;
}

// "-": this user, on this machine.
std::string FromText(const JobRecord& record) {
  const std::string from = StrangerWhoStarted(record);
  return from.empty() ? "-" : from;
}

std::string WhyText(const JobRecord& record) {
  return record.last_seen.why.empty() ? "-" : record.last_seen.why;
}

// A column before the last one, only where a job has something for it.
void AddColumn(const char* title, std::string (*text)(const JobRecord&),
               const std::vector<JobRecord>& records, std::vector<std::vector<std::string>>& rows) {
  if (std::ranges::all_of(records, [&](const JobRecord& r) { return text(r) == "-"; })) return;
  const auto at = [](std::vector<std::string>& row) { return row.end() - 1; };
  rows[0].insert(at(rows[0]), title);
  for (size_t i = 0; i < records.size(); ++i) {
    rows[i + 1].insert(at(rows[i + 1]), Harmless(text(records[i])));
  }
}

bool HasLabel(const JobRecord& record, std::string_view label) {
  const size_t equals = label.find('=');
  const auto found = record.labels.find(std::string(label.substr(0, equals)));
  if (found == record.labels.end()) return false;
  return equals == label.npos || found->second == label.substr(equals + 1);
}

std::vector<JobRecord> RecordsWith(const std::vector<std::string>& labels) {
  std::vector<JobRecord> records = LoadRecords();
  std::erase_if(records, [&](const JobRecord& record) {
    return !std::ranges::all_of(labels, [&](const auto& label) { return HasLabel(record, label); });
  });
  LookAgain(records);
  return records;
}

// What tells jobs apart keeps its room on a narrow terminal; what `describe` shows, too, makes it.
void DropColumnsFor(size_t columns, std::vector<std::vector<std::string>>& rows) {
  constexpr size_t kEnough = 16;  // of a text that may be cut
  constexpr size_t kGap = 2;
  for (const char* title : {"LASTED", "HOSTS", "TASKS", "AGE", "LABELS", "FROM", "WHY"}) {
    std::vector<size_t> widths(rows[0].size(), 0);
    for (const auto& row : rows) {
      for (size_t at = 0; at < row.size(); ++at) {
        const size_t width = DisplayWidth(row[at]);
        widths[at] = std::max(widths[at], at == 0 ? width : std::min(width, kEnough));
      }
    }
    const size_t gaps = kGap * (widths.size() - 1);
    if (columns == 0 || std::accumulate(widths.begin(), widths.end(), gaps) <= columns) return;
    const auto dropped = std::ranges::find(rows[0], title) - rows[0].begin();
    if (static_cast<size_t>(dropped) == rows[0].size()) continue;
    for (auto& row : rows) row.erase(row.begin() + dropped);
  }
}

// Each of those that cannot be read has its line.
int ExitCodeOfRecords() { return CountUnreadableRecords() == 0 ? kExitSuccess : kExitHost; }

int ListJobs(const std::vector<std::string>& labels) {
  const std::vector<JobRecord> records = RecordsWith(labels);
  if (records.empty()) {
    Print("no job {}is known on this machine{}\n", labels.empty() ? "" : "with that label ",
          ButForUnreadable());
    return ExitCodeOfRecords();
  }
  std::vector<std::vector<std::string>> rows = {
      {"JOB", "STATE", "AGE", "LASTED", "HOSTS", "TASKS", "FILE OR COMMAND"}};
  for (const JobRecord& record : records) {
    rows.push_back({Harmless(record.id), Harmless(StateIn(record)),
                    Span(WallClockNanoseconds() - CreatedNanoseconds(record)), Lasted(record),
                    std::to_string(CountHosts(record.hosts)), std::to_string(record.tasks.size()),
                    Harmless(StartedFrom(record))});
  }
  AddColumn("FROM", FromText, records, rows);
  AddColumn("WHY", WhyText, records, rows);
  AddColumn("LABELS", LabelText, records, rows);
  DropColumnsFor(StdoutColumns(), rows);
  PrintLines(AlignColumns(rows, StdoutColumns()));
  return ExitCodeOfRecords();
}

int ListAsJson(const std::vector<std::string>& labels) {
  json jobs = json::array();
  for (const JobRecord& record : RecordsWith(labels)) jobs.push_back(RowJson(record));
  PrintJson(jobs);
  return ExitCodeOfRecords();
}

using JobOfUser = std::pair<std::string, std::string>;  // job, user

struct JobOnHost {
  std::string from = "-";  // who started it: "alice@laptop"
  bool has_tasks = false;
};

struct ProcessOfJob {
  JobOfUser job;
  JobOnHost told;
};

struct JobOnHosts {
  std::vector<std::string> hosts;
  JobOnHost told;
};

void Unite(const JobOnHost& more, JobOnHost& told) {
  told.has_tasks |= more.has_tasks;
  if (told.from == "-") told.from = more.from;
}

// What a host has printed is text that anybody there may have made.
std::optional<ProcessOfJob> ProcessIn(std::string_view line) {
  const std::string user(TakeWord(line));
  const bool is_holder = TakeWord(line) == "holder";
  const std::string from(TakeWord(line));
  constexpr std::string_view kBefore = "/jobs/";
  const size_t before = line.rfind(kBefore);
  if (before == line.npos) return std::nullopt;
  line.remove_prefix(before + kBefore.size());
  const std::string job(line.substr(0, line.find('/')));
  if (!IsJobId(job)) return std::nullopt;
  return ProcessOfJob{{job, user}, {from, is_holder}};
}

// How long ago the job was started, by its id.
std::string AgeOf(const std::string& job) {
  JobRecord record;
  record.created = CreatedBy(job);
  const int64_t created = CreatedNanoseconds(record);
  return created == 0 ? "-" : Span(std::max<int64_t>(0, WallClockNanoseconds() - created));
}

// What a host has answered.
struct HostListing {
  std::map<JobOfUser, JobOnHost> jobs;
  bool hides_others = false;  // jobs of other accounts cannot be seen
};

HostListing ListingIn(std::string_view output) {
  HostListing listing;
  listing.hides_others = output.ends_with(kHidden);
  while (!output.empty()) {
    const auto process = ProcessIn(TakeUpTo('\n', output));
    if (process) Unite(process->told, listing.jobs[process->job]);
  }
  return listing;
}

json HostJson(const Errand& errand, const ErrandResult& result) {
  const HostListing listing = ListingIn(result.output);
  json jobs = json::array();
  for (const auto& [job, told] : listing.jobs) {
    jobs.push_back({{"job", job.first},
                    {"user", job.second},
                    {"started_by", told.from == "-" ? "" : told.from},
                    {"created", CreatedBy(job.first)},
                    {"has_tasks", told.has_tasks}});
  }
  return {{"host", errand.label},
          {"jobs", jobs},
          {"hides_others", listing.hides_others},
          {"error", result.error ? result.error->what() : ""}};
}

void PrintHostsAsJson(const std::vector<Errand>& errands,
                      const std::vector<ErrandResult>& results) {
  json hosts = json::array();
  for (size_t at = 0; at < errands.size(); ++at)
    hosts.push_back(HostJson(errands[at], results[at]));
  PrintJson(hosts);
}

void PrintHosts(const std::vector<Errand>& errands, const std::vector<ErrandResult>& results) {
  std::map<JobOfUser, JobOnHosts> jobs;
  std::vector<std::string> answered;
  std::vector<std::string> blind;
  for (size_t at = 0; at < errands.size(); ++at) {
    const HostListing listing = ListingIn(results[at].output);
    if (!results[at].error) answered.push_back(errands[at].label);
    if (listing.hides_others) blind.push_back(errands[at].label);
    for (const auto& [job, told] : listing.jobs) {
      jobs[job].hosts.push_back(errands[at].label);
      Unite(told, jobs[job].told);
    }
  }
  std::vector<std::vector<std::string>> rows = {{"JOB", "USER", "FROM", "STATE", "AGE", "ON"}};
  for (const auto& [job, here] : jobs) {
    rows.push_back({Harmless(job.first), Harmless(job.second), Harmless(here.told.from),
                    here.told.has_tasks ? "tasks run" : "no task runs", AgeOf(job.first),
                    Harmless(FoldHosts(here.hosts))});
  }
  if (!jobs.empty()) {
    PrintLines(AlignColumns(rows, StdoutColumns()));
  } else if (!answered.empty()) {
    Print("no job {} on {}\n", blind.empty() ? "runs" : "can be seen", FoldHosts(answered));
  }
  if (!blind.empty()) {
    Say("tfdist: {}: /proc hides the processes of other accounts (hidepid): their jobs cannot be "
        "seen\n",
        FoldHosts(blind));
    Say("  try: as root there, or as a member of the group that gid= of its /proc names\n");
  }
}

int ListOnHosts(const Sites& sites, bool as_json) {
  std::vector<Errand> errands;
  for (const Site& site : sites.sites) {
    HostCommand command;
    command.words = {"sh", "-c", kFindAgents};
    errands.push_back({site.host.name, site.host, std::move(command)});
  }
  const FanOutResult done =
      FanOut(errands, sites.ssh, {.gather = true, .timeout = kListLimit, .until = {}});
  std::vector<Error> errors;
  for (const ErrandResult& result : done.results) {
    if (result.error) errors.push_back(*result.error);
  }
  as_json ? PrintHostsAsJson(errands, done.results) : PrintHosts(errands, done.results);
  PrintErrors(errors);
  if (done.interrupted) return kExitInterrupted;
  const bool all_seen = std::ranges::none_of(done.results, [](const ErrandResult& result) {
    return ListingIn(result.output).hides_others;
  });
  return errors.empty() && all_seen ? kExitSuccess : kExitHost;
}

void RefuseHost(const std::string& word) {
  if (LooksLikeAFile(word) || std::filesystem::exists(word)) return;
  throw UsageError(Phase::kUsage,
                   fmt::format("list takes a cluster file, and there is no file {}", word),
                   fmt::format("tfdist list -H {0} asks the host {0}; tfdist list shows the jobs "
                               "of this machine",
                               word));
}

void RefuseJob(const std::string& word) {
  const std::vector<JobRecord> records = LoadRecords();
  const bool is_job = std::ranges::any_of(
      records, [&](const JobRecord& record) { return record.name == word || record.id == word; });
  if (!is_job || LooksLikeAFile(word) || std::filesystem::exists(word)) return;
  throw UsageError(
      Phase::kUsage,
      fmt::format("{} is a job, and list takes a cluster file, whose hosts it asks", word),
      fmt::format("tfdist status {0}, or tfdist describe {0}; tfdist list shows all jobs", word));
}

}  // namespace

int ListCommand(const ListArguments& arguments) {
  if (!arguments.hosts.empty()) {
    return ListOnHosts(SitesOfHosts(arguments.hosts, arguments.ssh_config, arguments.transport),
                       arguments.json);
  }
  if (!arguments.file.empty()) {
    RefuseJob(arguments.file);
    RefuseHost(arguments.file);
    return ListOnHosts(SitesOfFile(arguments.file), arguments.json);
  }
  return arguments.json ? ListAsJson(arguments.labels) : ListJobs(arguments.labels);
}

}  // namespace tfdist::cli
