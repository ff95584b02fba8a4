#include "cli/find/find_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <thread>
#include <utility>
#include <variant>

#include "base/failures.h"
#include "cli/cluster_file/host_range.h"
#include "cli/cluster_file/nearest.h"
#include "cli/find/adopt_job.h"
#include "cli/find/begun.h"
#include "cli/find/kept_files.h"
#include "cli/find/last_seen.h"
#include "cli/find/other_hosts.h"
#include "cli/show/report.h"
#include "cli/stream/host_fold.h"
#include "cli/stream/print.h"

namespace tfdist::cli {
namespace {

using namespace std::chrono_literals;

// For one of several `up`s of a name to be let in.
constexpr auto kRefusalLimit = 10s;
constexpr auto kPause = 500ms;
constexpr const char* kHowToFindJobs =
    "tfdist list shows those that are; a cluster file, or -H with its hosts, finds a job there";

// Newest first.
std::vector<JobRecord> RecordsWhere(auto matches) {
  std::vector<JobRecord> records = LoadRecords();
  std::erase_if(records, [&](const JobRecord& record) { return !matches(record); });
  return records;
}

bool MayRun(const JobRecord& record) {
  return record.last_seen.may_run() && !HasNeverBegun(record);
}

// Several `up`s of one name: the first host lets one of them in and refuses the others.
bool AreBroughtUpAtOnce(const std::vector<const JobRecord*>& running) {
  return running.size() > 1 && std::ranges::all_of(running, [&](const JobRecord* record) {
           return record->last_seen.stage == LastSeen::Stage::kStarting &&
                  record->name == running[0]->name;
         });
}

// Not one whose `up` packs, or brings up its hosts.
bool HasBegun(const JobRecord* record) {
  return record->last_seen.stage != LastSeen::Stage::kStarting;
}

// It may have begun all the same, just before its `up` was killed.
bool MayHaveBegun(const JobRecord& record) {
  return IsLeftByItsUp(record) && !HasNeverBegun(record);
}

// Who ends a job may mean one that is left, but for one of a running job's name: its first host has
// refused it.
std::vector<const JobRecord*> WithThoseLeft(const std::vector<const JobRecord*>& running,
                                            const std::vector<JobRecord>& candidates) {
  std::vector<const JobRecord*> found;
  for (const JobRecord& record : candidates) {
    const auto has_its_name = [&](const JobRecord* other) { return other->name == record.name; };
    const bool runs = std::ranges::find(running, &record) != running.end();
    if (runs || (IsLeftByItsUp(record) && std::ranges::none_of(running, has_its_name))) {
      found.push_back(&record);
    }
  }
  return found;
}

// Which job was meant is in no word of the command line.
void SayWhichIsMeant(const std::vector<const JobRecord*>& running) {
  Say("tfdist: of {} running jobs this is the newest: {}\n", running.size(), running[0]->id);
}

void SayThatItIs(const JobRecord& record) { Say("tfdist: job {}\n", record.id); }

// Of `candidates`, of which there is one at least, newest first. `plan`: of the file that names them.
MeantJob Choose(std::vector<JobRecord> candidates, bool named, Deed deed,
                const Plan* plan = nullptr) {
  const auto count = std::ranges::count_if(candidates, MayRun);
  const bool newest_alone = count == 0 || (count == 1 && MayRun(candidates[0]));
  const bool is_one = candidates.size() == 1;
  // What ran when this machine last looked may be over.
  if (!newest_alone || deed == Deed::kPurge ||
      (!is_one && std::ranges::any_of(candidates, MayHaveBegun))) {
    LookAgain(candidates);
  }
  std::vector<const JobRecord*> running = ThatMayRun(candidates);
  const TimePoint limit = SystemClock().Now() + kRefusalLimit;
  while (AreBroughtUpAtOnce(running) && SystemClock().Now() < limit) {
    std::this_thread::sleep_for(kPause);
    LookAgain(candidates);
    running = ThatMayRun(candidates);
  }
  if (deed == Deed::kLook && std::ranges::any_of(running, HasBegun)) {
    std::erase_if(running, [](const JobRecord* record) { return !HasBegun(record); });
  }
  if (deed != Deed::kLook && !running.empty()) running = WithThoseLeft(running, candidates);
  const JobRecord& first = running.empty() ? candidates[0] : *running[0];
  const JobsMeant meant{.named = named,
                        .running = running.size(),
                        .finished = candidates.size() - running.size(),
                        .of_another_project = plan != nullptr && IsOfAnotherProject(first, *plan)};
  const Consent consent = ConsentFor(deed, meant);
  if (consent == Consent::kRefused) FailAmbiguous(running);
  if (consent == Consent::kAsked) {
    deed == Deed::kPurge ? AskBeforePurge(first, meant) : AskBeforeAnotherProjects(first);
  } else if (meant.of_another_project) {
    Say("tfdist: job {} was started from {}\n", first.id, ProjectOf(first));
  }
  if (running.size() > 1) SayWhichIsMeant(running);
  const bool is_to_be_said = !named && !is_one && running.size() <= 1;
  if (is_to_be_said && !running.empty()) SayThatItIs(*running[0]);
  if (!running.empty()) return {*running[0], meant};
  if (deed == Deed::kLook) {
    // Who looks means a job that has done something, if there is one.
    std::stable_partition(candidates.begin(), candidates.end(),
                          [](const JobRecord& record) { return !IsLeftByItsUp(record); });
  }
  if (is_to_be_said) SayThatItIs(candidates[0]);
  return {std::move(candidates[0]), meant};
}

// Jobs that this machine has no record of, by what their first host shows: those that run there first, then newest first.
std::vector<std::pair<std::string, bool>> IdsOn(const Plan& plan) {
  std::vector<std::pair<std::string, bool>> ids;
  for (const RemoteJob& job : JobsOn(plan.hosts[0], plan.ssh, plan.name)) {
    const auto known = std::ranges::find(ids, job.job, &std::pair<std::string, bool>::first);
    if (known == ids.end()) {
      ids.emplace_back(job.job, job.running);
    } else {
      known->second = known->second || job.running;
    }
  }
  std::stable_partition(ids.begin(), ids.end(), [](const auto& id) { return id.second; });
  return ids;
}

// None of them can be named by its id, which this machine does not know.
[[noreturn]] void FailAsTheyAreOfAnotherMachine(
    const Plan& plan, const std::vector<std::pair<std::string, bool>>& ids) {
  std::string all;
  for (const auto& [id, runs] : ids)
    all += fmt::format("{}{}{}", all.empty() ? "" : ", ", id, runs ? " (runs)" : "");
  throw AmbiguousJob(Phase::kUsage,
                     fmt::format("{} has {} jobs of that name, started on another machine, and "
                                 "nothing was done: {}",
                                 plan.hosts[0].name, ids.size(), all),
                     "tfdist clean FILE lists them, and asks before it removes them");
}

std::optional<MeantJob> FindOnHosts(const Plan& plan, Deed deed) {
  const auto ids = IdsOn(plan);
  if (ids.empty()) return std::nullopt;
  const auto running = std::ranges::count_if(ids, [](const auto& id) { return id.second; });
  const JobsMeant meant{.named = true,
                        .running = static_cast<size_t>(running),
                        .finished = ids.size() - static_cast<size_t>(running)};
  if (ConsentFor(deed, meant) != Consent::kGiven) FailAsTheyAreOfAnotherMachine(plan, ids);
  return MeantJob{AdoptJob(plan, ids.front().first), meant};
}

// One of the name that another machine has started since those of this one are over.
std::optional<JobRecord> RunningFromElsewhere(const Plan& plan) try {
  const auto ids = IdsOn(plan);
  if (ids.empty() || !ids.front().second || IsKnownHere(ids.front().first)) return std::nullopt;
  return AdoptJob(plan, ids.front().first);
} catch (const Error&) {
  return std::nullopt;  // a host that is off hides none of the jobs that are known here
}

MeantJob FindByFile(const std::string& job, Deed deed) {
  const Plan plan = LoadPlan(job);
  auto candidates = RecordsWhere([&](const JobRecord& r) { return r.name == plan.name; });
  const auto elsewhere = [&](const JobRecord& r) { return !HasFirstHostOf(r, plan); };
  const bool one_is_here = !std::ranges::all_of(candidates, elsewhere);
  if (one_is_here) std::erase_if(candidates, elsewhere);
  // To end or change one of other hosts, it must be this very file that started it: its hosts have changed since.
  if (!one_is_here && deed != Deed::kLook) {
    std::erase_if(candidates, [&](const JobRecord& r) { return r.file != plan.file; });
  }
  if (one_is_here && std::ranges::none_of(candidates, MayRun)) {
    if (auto running = RunningFromElsewhere(plan)) {
      candidates.insert(candidates.begin(), *std::move(running));
    }
  }
  if (!candidates.empty()) return Choose(std::move(candidates), one_is_here, deed, &plan);
  if (auto found = FindOnHosts(plan, deed)) return *std::move(found);
  throw NoSuchJob(
      Phase::kUsage,
      fmt::format("no job {} of {} is known here, nor on {}", plan.name, job, plan.hosts[0].name),
      HowToReachKept(plan.hosts, plan.ssh, plan.name));
}

// `nor`: what else was looked for under that word.
NoSuchJob UnknownJob(const std::string& job, std::string_view nor) {
  const std::vector<JobRecord> records = LoadRecords();
  std::vector<std::string_view> names;
  for (const JobRecord& record : records) names.push_back(record.name);
  const std::string meant = DidYouMean(job, names);
  return {Phase::kUsage,
          fmt::format("no job {} is known on this machine{}{}{}{}", job, ButForUnreadable(), nor,
                      meant.empty() ? "" : "; ", meant),
          job == "-" ? "a job that `up -` has started goes by its name or id: tfdist list shows it"
                     : kHowToFindJobs};
}

// `up` prints one after the id, and a double click takes it along.
std::string WithoutColon(std::string word) {
  if (word.size() > 1 && word.ends_with(':')) word.pop_back();  // nothing would mean any job
  return word;
}

MeantJob Find(const std::string& word, Deed deed) {
  const std::string job = WithoutColon(word);
  if (LooksLikeAFile(job)) return FindByFile(job, deed);
  const bool only_looks = deed == Deed::kLook;
  const auto meant = [&](const JobRecord& r) {
    return job.empty() ? only_looks || !r.elsewhere : r.name == job || r.id == job;
  };
  auto candidates = RecordsWhere(meant);
  if (!candidates.empty()) return Choose(std::move(candidates), !job.empty(), deed);
  if (!job.empty()) throw UnknownJob(job, "");
  if (!LoadRecords().empty()) {
    throw NoSuchJob(
        Phase::kUsage,
        "no job is named, and those that this machine knows were started on another one",
        "name the job: tfdist list shows them");
  }
  throw NoSuchJob(Phase::kUsage, "no job is known on this machine" + ButForUnreadable(),
                  kHowToFindJobs);
}

bool Names(const std::string& word, const std::string& task) {
  return word == task || word == task.substr(0, task.find(':'));
}

void CheckTask(const JobRecord& record, const std::string& word) {
  if (HasTask(record, word)) return;
  const auto is_meant = [&](const JobRecord& one) { return one.name == word || one.id == word; };
  if (!RecordsWhere(is_meant).empty()) {
    throw UsageError(Phase::kUsage, fmt::format("{} is a job, and no task of {}", word, record.id),
                     "the job comes first, then its tasks");
  }
  std::string all;
  for (const auto& task : record.tasks) all += " " + task.id;
  throw UsageError(Phase::kUsage, fmt::format("job {} has no task {}", record.id, word),
                   fmt::format("one of:{}", all));
}

bool HasHost(const JobRecord& record, const std::string& word) {
  const std::vector<std::string> names = Expanded({word});
  return std::ranges::all_of(names, [&](const std::string& name) {
    return std::ranges::any_of(record.hosts, [&](const HostPlan& h) { return h.name == name; });
  });
}

// A task or a host.
bool IsOfAnyJob(const std::string& word) {
  return std::ranges::any_of(LoadRecords(), [&](const JobRecord& record) {
    return HasTask(record, word) || HasHost(record, word);
  });
}

void CheckHost(const JobRecord& record, const std::string& name) {
  std::vector<std::string> names;
  for (const HostPlan& host : record.hosts) names.push_back(host.name);
  if (std::ranges::find(names, name) != names.end()) return;
  throw UsageError(Phase::kUsage, fmt::format("job {} has no host {}", record.id, name),
                   fmt::format("one of: {}", FoldHosts(names)));
}

}  // namespace

std::string ButForUnreadable() {
  const size_t count = CountUnreadableRecords();
  return count == 0 ? ""
                    : fmt::format(", but for {} that cannot be read", Counted(count, "record"));
}

bool LooksLikeAFile(const std::string& word) {
  return word.find('/') != std::string::npos || word.ends_with(".toml");
}

void FailAmbiguous(const std::vector<const JobRecord*>& running) {
  std::string ids;
  bool one_is_left = false;
  for (const JobRecord* record : running) {
    const bool is_left = IsLeftByItsUp(*record);
    one_is_left = one_is_left || is_left;
    ids += fmt::format("{}{} ({}{})", ids.empty() ? "" : ", ", record->id, record->hosts[0].name,
                       is_left ? fmt::format("; {}", WhyItIsLeft(*record)) : "");
  }
  throw AmbiguousJob(Phase::kUsage,
                     fmt::format("{} jobs run{}: {}", running.size(),
                                 one_is_left ? ", or have left something" : "", ids),
                     "name one of them by its id");
}

namespace {

// But for the first.
std::vector<std::string> HostsWithFolder(const JobRecord& record) {
  std::vector<std::string> hosts;
  for (const HostsWord& word : AskOtherHosts(record)) {
    if (word.has_folder) hosts.push_back(word.host);
  }
  return hosts;
}

}  // namespace

NoSuchJob NothingLeftOf(std::string_view what, const JobRecord& record) {
  const LastSeen::Stage stage = record.last_seen.stage;
  if (IsLeftByItsUp(record)) {
    return {Phase::kUsage,
            fmt::format("{} of job {} is not there: {}", what, record.id, WhyItIsLeft(record)),
            HowToEndWhatIsLeft(record)};
  }
  if (const auto why = WhyNotBegun(record)) {
    return {Phase::kUsage, fmt::format("{} of job {} is not there: {}", what, record.id, *why),
            fmt::format("tfdist logs -f {} waits until it begins", record.id)};
  }
  if (stage == LastSeen::Stage::kStarting || stage == LastSeen::Stage::kNotStarted) {
    const std::string& why = record.last_seen.why;
    return {Phase::kUsage,
            fmt::format("{} of job {} is not there: the job has not started{}{}", what, record.id,
                        why.empty() ? "" : ": ", why),
            fmt::format("tfdist status {} says how it stands", record.id)};
  }
  const std::string gone =
      fmt::format("{} of job {} is gone: its folder is gone from ", what, record.id);
  const std::vector<std::string> left = HostsWithFolder(record);
  if (left.empty())
    return {Phase::kUsage, gone + record.hosts[0].name, "tfdist prune forgets finished jobs"};
  return {Phase::kUsage,
          fmt::format("{}{}; {} still {} one", gone, record.hosts[0].name, FoldHosts(left),
                      left.size() == 1 ? "has" : "have"),
          fmt::format("tfdist logs {0} and tfdist pull {0} bring what is there", record.id)};
}

JobRecord FindJob(const std::string& job, Deed deed) { return Find(job, deed).record; }

std::vector<MeantJob> JobsMeantBy(const std::vector<std::string>& jobs, Deed deed) {
  std::vector<MeantJob> found;
  for (const std::string& job : jobs) found.push_back(Find(job, deed));
  if (jobs.empty()) found.push_back(Find("", deed));
  return found;
}

std::vector<std::string> Expanded(const std::vector<std::string>& words) {
  std::vector<std::string> all;
  for (const std::string& word : words) {
    auto expanded = ExpandRanges(word);
    if (const auto* bad = std::get_if<BadRange>(&expanded)) {
      throw UsageError(Phase::kUsage, fmt::format("{}: {}", word, bad->why));
    }
    auto& names = std::get<std::vector<std::string>>(expanded);
    std::move(names.begin(), names.end(), std::back_inserter(all));
  }
  return all;
}

bool HasTask(const JobRecord& record, const std::string& word) {
  return std::any_of(record.tasks.begin(), record.tasks.end(),
                     [&](const auto& task) { return Names(word, task.id); });
}

std::vector<std::string> SelectTasks(const JobRecord& record,
                                     const std::vector<std::string>& wanted,
                                     const std::vector<std::string>& hosts) {
  std::vector<std::string> words = Expanded(wanted);
  std::vector<std::string> names = Expanded(hosts);
  std::erase_if(words, [&](const std::string& word) {
    const bool is_host = word.starts_with('@');
    if (is_host) names.push_back(word.substr(1));
    return is_host;
  });
  for (const std::string& word : words) CheckTask(record, word);
  for (const std::string& name : names) CheckHost(record, name);
  std::vector<std::string> selected;
  for (const auto& task : record.tasks) {
    const auto names_it = [&](const std::string& word) { return Names(word, task.id); };
    const std::string& host = record.hosts.at(static_cast<size_t>(task.slot)).name;
    const bool is_wanted = words.empty() || std::ranges::any_of(words, names_it);
    const bool is_there = names.empty() || std::ranges::find(names, host) != names.end();
    if (is_wanted && is_there) selected.push_back(task.id);
  }
  return selected;
}

JobAndWords FindJobAndWords(std::vector<std::string> words, Deed deed) {
  if (!words.empty()) words[0] = WithoutColon(std::move(words[0]));
  const bool is_selector = words.empty() || words[0].starts_with('@') ||
                           (words[0].find(':') != std::string::npos && !LooksLikeAFile(words[0]));
  if (is_selector) return {FindJob("", deed), std::move(words)};
  try {
    JobRecord record = FindJob(words[0], deed);
    words.erase(words.begin());
    return {std::move(record), std::move(words)};
  } catch (const NoSuchJob&) {
    if (!IsOfAnyJob(words[0])) {
      if (LooksLikeAFile(words[0])) throw;
      throw UnknownJob(words[0], ", nor a task or host of that name");
    }
    JobRecord any = FindJob("", deed);
    if (!HasTask(any, words[0]) && !HasHost(any, words[0])) throw;
    return {std::move(any), std::move(words)};
  }
}

}  // namespace tfdist::cli
