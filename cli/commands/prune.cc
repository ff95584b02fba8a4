// `tfdist prune [JOB...]`: forgets jobs that are over. What their tasks have written stays on the hosts, and this machine's
// record may be the only way to it.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "base/clock.h"
#include "cli/commands/commands.h"
#include "cli/exit_codes.h"
#include "cli/find/find_job.h"
#include "cli/find/last_seen.h"
#include "cli/hosts/for_each_host.h"
#include "cli/job/connector.h"
#include "cli/link/house.h"
#include "cli/show/consent.h"
#include "cli/show/print_json.h"
#include "cli/show/report.h"
#include "cli/show/slow_notice.h"
#include "cli/stream/host_fold.h"
#include "cli/stream/print.h"

namespace tfdist::cli {
namespace {

using nlohmann::json;

constexpr std::chrono::seconds kSurveyLimit{60};

// How a machine is reached, and where tfdist's folder is there: jobs that agree in it share a survey.
using Machine = std::tuple<std::string, std::string, int, std::string, std::string, std::string>;

Machine MachineOf(const JobRecord& record, const HostPlan& host) {
  const SshOptions& ssh = record.ssh;
  return {host.local ? "" : host.ssh,
          host.ssh_user.empty() ? ssh.user : host.ssh_user,
          host.ssh_port.value_or(ssh.port.value_or(0)),
          ssh.config.string(),
          ssh.identity_file,
          ssh.remote_dir};
}

struct Surveyed {
  const JobRecord* record = nullptr;  // one of a job that has that machine
  const HostPlan* host = nullptr;
  HostSurvey found;
  std::optional<Error> error;  // why it did not answer
};
using Surveys = std::map<Machine, Surveyed>;

// Agents that an `up` has left end by themselves.
bool IsOver(const JobRecord& record) { return record.last_seen.is_over() || HasNeverBegun(record); }

Surveys SurveyHostsOf(const std::vector<const JobRecord*>& records) {
  Surveys surveys;
  for (const JobRecord* record : records) {
    if (HasNeverBegun(*record)) continue;
    for (const HostPlan& host : record->hosts) {
      Surveyed& surveyed = surveys[MachineOf(*record, host)];
      surveyed.record = record;
      surveyed.host = &host;
    }
  }
  std::vector<Surveyed*> all;
  for (auto& [machine, surveyed] : surveys) all.push_back(&surveyed);
  const SlowNotice notice("looking for what tasks of finished jobs have written");
  const auto failures = ForEachHost(all.size(), [&](size_t at) {
    const SshOptions& ssh = all[at]->record->ssh;
    const auto transport = MakeTransport(*all[at]->host, ssh);
    all[at]->found = Survey({*transport, GetEmbeddedAgents(), ssh.remote_dir, kSurveyLimit});
  });
  for (size_t at = 0; at < all.size(); ++at) {
    if (failures[at]) all[at]->error = WithHost(*failures[at], all[at]->host->name);
  }
  return surveys;
}

bool HasTaskFiles(const HostSurvey& survey, const std::string& job) {
  return std::ranges::any_of(survey.slots, [&](const SlotOnHost& slot) {
    return slot.job.job == job && slot.has_task_files && !slot.out_of_time;
  });
}

bool TookTooLong(const HostSurvey& survey, const std::string& job) {
  return std::ranges::any_of(survey.slots, [&](const SlotOnHost& slot) {
    return slot.job.job == job && slot.out_of_time;
  });
}

struct Left {
  std::string why;  // it is kept; empty: nothing of its tasks is left
  bool is_known = true;
};

Left WhatIsLeft(const JobRecord& record, const Surveys& surveys) {
  if (HasNeverBegun(record)) return {};
  std::vector<std::string> with_files;
  std::vector<std::string> slow;
  std::vector<std::string> silent;
  std::vector<std::string> unseen;
  for (size_t slot = 0; slot < record.hosts.size(); ++slot) {
    const HostPlan& host = record.hosts[slot];
    const Surveyed& surveyed = surveys.at(MachineOf(record, host));
    if (surveyed.error) {
      silent.push_back(host.name);
    } else if (HasTaskFiles(surveyed.found, record.id)) {
      with_files.push_back(host.name);
    } else if (TookTooLong(surveyed.found, record.id)) {
      slow.push_back(host.name);
    } else if (!IsInSight(surveyed.found.folders, KnownBaseOf(record, static_cast<int>(slot)))) {
      unseen.push_back(host.name);
    }
  }
  if (!with_files.empty()) {
    return {fmt::format("files of its tasks are on {}", FoldHosts(with_files))};
  }
  if (!slow.empty()) {
    return {fmt::format("looking for files of its tasks took too long on {}", FoldHosts(slow)),
            false};
  }
  if (!silent.empty()) return {fmt::format("{} did not answer", FoldHosts(silent)), false};
  if (unseen.empty()) return {};
  return {
      fmt::format("tfdist's folder cannot be seen on {} (is its file system mounted?); if it was "
                  "removed: tfdist prune {}",
                  FoldHosts(unseen), record.id),
      false};
}

struct Meant {
  std::vector<const JobRecord*> records;
  JobsMeant jobs;
};

[[noreturn]] void FailAsSomeAreNotOver(const Meant& meant) {
  std::string all;
  std::string_view last;
  for (const JobRecord* record : meant.records) {
    if (IsOver(*record)) continue;
    all += fmt::format(
        "{}{} is not over ({})", all.empty() ? "" : ", ", record->id,
        IsLeftByItsUp(*record) ? WhyItIsLeft(*record) : std::string(StateName(record->last_seen)));
    last = record->id;
  }
  throw UsageError(Phase::kUsage, fmt::format("job {}: nothing was forgotten", all),
                   fmt::format("tfdist down {} ends it; an id names one of several jobs", last));
}

// Throws NoSuchJob; UsageError where one of them is not over.
Meant MeantBy(const std::vector<JobRecord>& records, const std::string& word) {
  Meant meant{{}, {.named = true}};
  for (const JobRecord& record : records) {
    if (record.id != word && record.name != word) continue;
    ++(IsOver(record) ? meant.jobs.finished : meant.jobs.running);
    meant.jobs.by_id = record.id == word;
    meant.records.push_back(&record);
  }
  if (meant.records.empty()) {
    throw NoSuchJob(Phase::kUsage,
                    fmt::format("no job {} is known on this machine{}", word, ButForUnreadable()),
                    "tfdist list shows those that are");
  }
  if (ConsentFor(Deed::kForget, meant.jobs) == Consent::kRefused) FailAsSomeAreNotOver(meant);
  return meant;
}

json JobJson(const JobRecord& record) { return {{"job", record.id}, {"name", record.name}}; }

json KeptJson(const JobRecord& record, const std::string& why) {
  json kept = JobJson(record);
  kept["why"] = why;
  return kept;
}

void Forget(const std::vector<const JobRecord*>& records) {
  for (const JobRecord* record : records) RemoveRecord(record->id);
}

void PrintPruneAsJson(const std::vector<const JobRecord*>& forgotten, json kept) {
  json jobs = json::array();
  for (const JobRecord* record : forgotten) jobs.push_back(JobJson(*record));
  PrintJson({{"forgotten", std::move(jobs)}, {"kept", std::move(kept)}});
}

std::string ForgotText(const std::vector<const JobRecord*>& records, size_t of) {
  return fmt::format("forgot {}", CountedOf(records.size(), of, "job"));
}

void SayWhatIsForgotten(const std::vector<const JobRecord*>& records, size_t of) {
  Print("{}; folders stay on the hosts: tfdist clean FILE, or -H HOST,...\n",
        ForgotText(records, of));
}

void SayWhatIsLeft(const char* what, const std::vector<const JobRecord*>& records,
                   const Surveys& surveys) {
  for (const JobRecord* record : records) {
    Print("{} {}: {}\n", what, record->id, WhatIsLeft(*record, surveys).why);
  }
  FlushOutput();  // what cannot be listed is not asked for
}

bool IsToForget(size_t count) {
  return IsConfirmed(fmt::format("forget {}? No command finds {} then",
                                 count == 1 ? "this job" : "these jobs",
                                 count == 1 ? "its files" : "their files"));
}

// Of jobs that a name means: who writes it need not know that they have left results.
void AskBeforeForgetting(std::vector<const JobRecord*> by_name, bool as_json) {
  const Surveys surveys = SurveyHostsOf(by_name);
  std::erase_if(by_name,
                [&](const JobRecord* record) { return WhatIsLeft(*record, surveys).why.empty(); });
  if (by_name.empty()) return;
  if (!as_json) {
    PrintDone("nothing was forgotten", [&] { SayWhatIsLeft("left:", by_name, surveys); });
  }
  if (!as_json && HasTerminal() && IsToForget(by_name.size())) return;
  const std::string& id = by_name[0]->id;
  throw UsageError(Phase::kUsage,
                   "nothing was forgotten: this machine's record is the only way to these files",
                   fmt::format("tfdist pull {0} brings them home, tfdist down --purge {0} removes "
                               "them, tfdist prune {0} "
                               "forgets the job",
                               id));
}

int ForgetNamed(const std::vector<JobRecord>& records, const PruneArguments& arguments) {
  const std::vector<std::string>& words = arguments.jobs;
  std::vector<const JobRecord*> named;
  std::vector<const JobRecord*> by_name;
  for (const std::string& word : words) {
    const Meant meant = MeantBy(records, word);
    const bool asks = ConsentFor(Deed::kForget, meant.jobs) != Consent::kGiven;
    for (const JobRecord* record : meant.records) {
      if (std::ranges::find(named, record) == named.end()) named.push_back(record);
      const bool has_its_id = std::ranges::find(words, record->id) != words.end();
      if (asks && !has_its_id) by_name.push_back(record);
    }
  }
  AskBeforeForgetting(std::move(by_name), arguments.json);
  Forget(named);
  PrintDone(ForgotText(named, records.size()), [&] {
    if (arguments.json) {
      PrintPruneAsJson(named, json::array());
    } else {
      SayWhatIsForgotten(named, records.size());
    }
  });
  return kExitSuccess;
}

// They have no results, but logs, to which the record is the way. `meant`: of jobs that nobody has named, as below.
bool MayForgetLogs(const JobsMeant& meant, bool as_json) {
  if (meant.finished == 0 || ConsentFor(Deed::kForgetLogs, meant) == Consent::kGiven) return true;
  return as_json || !HasTerminal() ||
         IsConfirmed(fmt::format("forget {} finished jobs? No command finds their logs then",
                                 meant.finished));
}

// Jobs with results are kept unless the user says y.
bool MayForget(const std::vector<const JobRecord*>& kept, const JobsMeant& meant,
               const Surveys& surveys) {
  const bool asks = ConsentFor(Deed::kForget, meant) == Consent::kAsked && HasTerminal();
  SayWhatIsLeft(asks ? "left:" : "kept", kept, surveys);
  Print(
      "tfdist pull JOB brings them home, tfdist down --purge JOB removes them, tfdist prune JOB "
      "forgets the job by its id\n");
  FlushOutput();
  return asks && IsToForget(kept.size());
}

// `with_results`: those that stay.
json StayingJson(const std::vector<JobRecord>& records,
                 const std::vector<const JobRecord*>& with_results, const Surveys& surveys) {
  json kept = json::array();
  for (const JobRecord* record : with_results) {
    kept.push_back(KeptJson(*record, WhatIsLeft(*record, surveys).why));
  }
  for (const JobRecord& record : records) {
    if (IsLeftByItsUp(record) && !IsOver(record))
      kept.push_back(KeptJson(record, WhyItIsLeft(record)));
  }
  return kept;
}

// Of jobs that stay though they may have left nothing. Prints why that is not known.
int ExitCodeOf(const std::vector<const JobRecord*>& kept, const Surveys& surveys) {
  const auto unknown = static_cast<size_t>(std::ranges::count_if(
      kept, [&](const JobRecord* record) { return !WhatIsLeft(*record, surveys).is_known; }));
  if (unknown == 0) return kExitSuccess;
  std::vector<Error> errors;
  for (const auto& [machine, surveyed] : surveys) {
    if (surveyed.error) errors.push_back(*surveyed.error);
  }
  PrintErrors(errors);
  PrintError(Error(Phase::kFiles,
                   fmt::format("{}: not known whether files of tasks are left",
                               CountedOf(unknown, kept.size(), "kept job")),
                   "the same again once that can be seen; tfdist prune ID forgets the job"));
  return kExitHost;
}

}  // namespace

int PruneCommand(const PruneArguments& arguments) {
  std::vector<JobRecord> records = LoadRecords();
  LookAgain(records);
  if (!arguments.jobs.empty()) return ForgetNamed(records, arguments);
  std::vector<const JobRecord*> over;
  for (const JobRecord& record : records) {
    if (IsOver(record)) over.push_back(&record);
  }
  const size_t running = records.size() - over.size();
  // Of a job that is noted as not started, too, where its `up` may have got no answer.
  const Surveys surveys = SurveyHostsOf(over);
  const auto kept = std::stable_partition(over.begin(), over.end(), [&](const JobRecord* record) {
    return WhatIsLeft(*record, surveys).why.empty();
  });
  std::vector<const JobRecord*> forgotten(over.begin(), kept);
  std::vector<const JobRecord*> rest(kept, over.end());
  // Each answer counts at once; after no there is no question about more.
  const bool goes_on =
      MayForgetLogs({.running = running, .finished = forgotten.size()}, arguments.json);
  if (!goes_on) forgotten.clear();
  Forget(forgotten);
  const JobsMeant meant{.running = running, .finished = rest.size()};
  bool forgets_rest = false;
  if (goes_on && !arguments.json && !rest.empty()) {
    PrintDone(ForgotText(forgotten, records.size()),
              [&] { forgets_rest = MayForget(rest, meant, surveys); });
  }
  if (forgets_rest) {
    Forget(rest);
    forgotten.insert(forgotten.end(), rest.begin(), rest.end());
    rest.clear();
  }
  PrintDone(ForgotText(forgotten, records.size()), [&] {
    if (arguments.json) return PrintPruneAsJson(forgotten, StayingJson(records, rest, surveys));
    SayWhatIsForgotten(forgotten, records.size());
    for (const JobRecord& record : records) {
      if (!IsLeftByItsUp(record) || IsOver(record)) continue;
      Print("kept {}: {}; {}\n", record.id, WhyItIsLeft(record), HowToEndWhatIsLeft(record));
    }
  });
  return ExitCodeOf(rest, surveys);
}

}  // namespace tfdist::cli
