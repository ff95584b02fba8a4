#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "base/clock.h"
#include "base/failures.h"
#include "cli/cluster_file/quantity.h"
#include "cli/commands/commands.h"
#include "cli/exit_codes.h"
#include "cli/find/sites.h"
#include "cli/hosts/for_each_host.h"
#include "cli/job/connector.h"
#include "cli/job/job_record.h"
#include "cli/link/bootstrap.h"
#include "cli/link/house.h"
#include "cli/render/table.h"
#include "cli/show/consent.h"
#include "cli/show/host_fold.h"
#include "cli/show/kept_text.h"
#include "cli/show/print_json.h"
#include "cli/show/report.h"
#include "cli/stream/print.h"

namespace tfdist::cli {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

constexpr auto kHostLimit = 60s;

// What `ask` says of a host, or why it could not be asked.
template <typename Answer>
struct AnswerOfHost {
  Answer answer;
  std::optional<Error> error;
};

template <typename Answer>
std::vector<AnswerOfHost<Answer>> AskAll(const std::vector<HostPlan>& hosts, const SshOptions& ssh,
                                         const std::function<Answer(const House&)>& ask) {
  std::vector<AnswerOfHost<Answer>> answers(hosts.size());
  const auto failures = ForEachHost(hosts.size(), [&](size_t at) {
    const auto transport = MakeTransport(hosts[at], ssh);
    answers[at].answer = ask({*transport, GetEmbeddedAgents(), ssh.remote_dir, kHostLimit});
  });
  for (size_t at = 0; at < answers.size(); ++at) {
    if (failures[at]) answers[at].error = WithHost(*failures[at], hosts[at].name);
  }
  return answers;
}

// Slots of one machine share a folder.
using Machine = std::pair<bool, std::string>;

Machine MachineOf(const HostPlan& host) { return {host.local, host.local ? "" : host.ssh}; }

Plan OncePerMachine(Plan plan) {
  std::set<Machine> seen;
  std::erase_if(plan.hosts,
                [&](const HostPlan& host) { return !seen.insert(MachineOf(host)).second; });
  return plan;
}

// Whose a slot's folder is: by the job's record, where this machine has one, else by the cluster file.
class Owners {
 public:
  // `plan` is borrowed, with all slots.
  explicit Owners(const Plan& plan) : plan_(plan) {
    for (JobRecord& record : LoadRecords()) {
      if (record.last_seen.is_over()) over_.insert(record.id);
      hosts_[record.id] = std::move(record.hosts);
    }
  }

  // As this machine's record has it.
  [[nodiscard]] bool IsOver(const std::string& job) const { return over_.contains(job); }

  [[nodiscard]] std::optional<Machine> Of(const RemoteJob& slot) const {
    const auto known = hosts_.find(slot.job);
    if (known == hosts_.end() && !IsJobIdOf(slot.job, plan_.name)) return std::nullopt;
    const auto& hosts = known == hosts_.end() ? plan_.hosts : known->second;
    const auto at = static_cast<size_t>(slot.slot);
    return at < hosts.size() ? std::optional(MachineOf(hosts[at])) : std::nullopt;
  }

 private:
  const Plan& plan_;
  std::map<std::string, std::vector<HostPlan>> hosts_;
  std::set<std::string> over_;
};

// What there is on the hosts, and what of it is to go.
struct Proposal {
  std::vector<HostPlan> answering;  // of those with one folder the first, with the names of all
  std::vector<HostSurvey> hosts;    // of these
  size_t unanswered = 0;
  std::set<Machine> seen;  // those that showed all
  std::set<Machine> silent;
  std::set<std::string> running;  // ids, on any host: homes may be shared, and a folder with them
  // Those of them that are over.
  std::set<std::string> waiting;
  // Another host may run them, in a folder that it shares with one of these.
  std::set<std::string> in_doubt;
  std::set<std::string> jobs;     // ids that are to be removed
  bool has_task_files = false;    // of some job to be removed
  bool purges = false;            // {keep} goes, where no job of its name stays
  bool spares_kept = false;       // but by --keep none goes
  int64_t purged_from_age_s = 0;  // and its newest file is as old as that
  bool has_caches = false;        // to be removed
  bool caches_stay = false;       // for jobs that stay
  [[nodiscard]] bool something_may_run() const { return !running.empty() || !in_doubt.empty(); }
};

// Of such a name no job stays, on any host: homes may be shared.
bool IsLeftBehind(const Proposal& proposal, const std::string& name) {
  return std::ranges::none_of(proposal.hosts, [&](const HostSurvey& host) {
    return std::ranges::any_of(host.slots, [&](const SlotOnHost& slot) {
      return IsJobIdOf(slot.job.job, name) && !proposal.jobs.contains(slot.job.job);
    });
  });
}

// Where not all files were looked at, a newer one may be among them.
bool IsOldEnough(const Proposal& proposal, const KeptOfName& kept) {
  if (proposal.purged_from_age_s == 0) return true;
  return kept.files.all && kept.files.age_s >= proposal.purged_from_age_s;
}

// Names whose {keep} is to go, on all hosts.
std::set<std::string> KeptToGo(const Proposal& proposal) {
  std::set<std::string> names;
  std::set<std::string> newer;
  if (!proposal.purges || proposal.spares_kept) return names;
  for (const HostSurvey& host : proposal.hosts) {
    for (const KeptOfName& kept : host.kept) {
      if (!IsOldEnough(proposal, kept)) newer.insert(kept.name);
      if (IsLeftBehind(proposal, kept.name)) names.insert(kept.name);
    }
  }
  for (const std::string& name : newer) names.erase(name);
  return names;
}

bool IsEmpty(const Proposal& proposal) {
  return proposal.jobs.empty() && !proposal.has_caches && KeptToGo(proposal).empty();
}

bool IsSameSlot(const SlotOnHost& a, const SlotOnHost& b) {
  return a.job.base == b.job.base && a.job.job == b.job.job && a.job.slot == b.job.slot;
}

bool HasSlotsOf(const HostSurvey& a, const HostSurvey& b) {
  return std::ranges::all_of(b.slots, [&](const SlotOnHost& slot) {
    return std::ranges::any_of(a.slots,
                               [&](const SlotOnHost& other) { return IsSameSlot(slot, other); });
  });
}

// A slot belongs to one host: two hosts that list the same slots share a folder, as a home on a network is. A host that
// lists anything else has another folder, too, so the command asks both hosts.
bool HaveOneFolder(const HostSurvey& a, const HostSurvey& b) {
  return !a.slots.empty() && HasSlotsOf(a, b) && HasSlotsOf(b, a) &&
         std::ranges::equal(a.kept, b.kept, {}, &KeptOfName::folder, &KeptOfName::folder) &&
         a.caches_kib == b.caches_kib;
}

// It runs where one of them sees that.
void Merge(const HostSurvey& from, HostSurvey& into) {
  for (SlotOnHost& slot : into.slots) {
    slot.job.running =
        slot.job.running || std::ranges::any_of(from.slots, [&](const SlotOnHost& other) {
          return IsSameSlot(slot, other) && other.job.running;
        });
  }
}

// What lies in a folder that several hosts have is listed, and removed, once.
void MergeThoseWithOneFolder(Proposal& proposal) {
  std::vector<HostPlan> hosts;
  std::vector<HostSurvey> surveys;
  std::vector<std::vector<std::string>> names;
  for (size_t at = 0; at < proposal.hosts.size(); ++at) {
    HostSurvey& survey = proposal.hosts[at];
    const auto same = std::ranges::find_if(
        surveys, [&](const HostSurvey& other) { return HaveOneFolder(other, survey); });
    const auto place = static_cast<size_t>(same - surveys.begin());
    if (same != surveys.end()) {
      Merge(survey, *same);
    } else {
      hosts.push_back(proposal.answering[at]);
      surveys.push_back(std::move(survey));
      names.emplace_back();
    }
    names[place].push_back(proposal.answering[at].name);
  }
  for (size_t at = 0; at < hosts.size(); ++at) hosts[at].name = FoldHosts(names[at]);
  proposal.answering = std::move(hosts);
  proposal.hosts = std::move(surveys);
}

// Says which hosts did not answer.
Proposal SurveyHosts(const Plan& plan) {
  auto answers = AskAll<HostSurvey>(plan.hosts, plan.ssh, Survey);
  Proposal proposal;
  for (size_t at = 0; at < answers.size(); ++at) {
    if (answers[at].error) {
      PrintError(*answers[at].error);
      ++proposal.unanswered;
      proposal.silent.insert(MachineOf(plan.hosts[at]));
    } else {
      const auto& refused = answers[at].answer.refused;
      if (!refused.empty())
        PrintError(RefusedFolders(Phase::kFiles, refused).WithHost(plan.hosts[at].name));
      (refused.empty() ? proposal.seen : proposal.silent).insert(MachineOf(plan.hosts[at]));
      proposal.answering.push_back(plan.hosts[at]);
      proposal.hosts.push_back(std::move(answers[at].answer));
    }
  }
  MergeThoseWithOneFolder(proposal);
  return proposal;
}

// Hosts share a folder where one has the folders of the other's slots. So a host that was not asked, or has not shown
// all, may run what lies here, unless the slot's own host is known to run nothing.
bool IsInDoubt(const Proposal& proposal, const Plan& plan, const Owners& owners,
               const SlotOnHost& slot) {
  const auto owner = owners.Of(slot.job);
  if (owner && proposal.seen.contains(*owner)) return false;
  // Hosts that the user has taken out of this file, and jobs of which this machine knows nothing.
  const bool is_own = IsJobIdOf(slot.job.job, plan.name);
  if (!owner || is_own) return slot.is_leased || !proposal.silent.empty();
  return true;
}

Proposal Propose(const Plan& plan, const Owners& owners, bool all_jobs) {
  Proposal proposal = SurveyHosts(plan);
  for (const HostSurvey& host : proposal.hosts) {
    for (const SlotOnHost& slot : host.slots) {
      if (slot.job.running) proposal.running.insert(slot.job.job);
      if (slot.job.running && owners.IsOver(slot.job.job)) proposal.waiting.insert(slot.job.job);
      if (IsInDoubt(proposal, plan, owners, slot)) proposal.in_doubt.insert(slot.job.job);
    }
  }
  for (const HostSurvey& host : proposal.hosts) {
    for (const SlotOnHost& slot : host.slots) {
      const std::string& job = slot.job.job;
      const bool meant = all_jobs || IsJobIdOf(job, plan.name);
      if (!meant || proposal.running.contains(job) || proposal.in_doubt.contains(job)) continue;
      proposal.jobs.insert(job);
      proposal.has_task_files = proposal.has_task_files || slot.has_task_files;
    }
    proposal.has_caches = proposal.has_caches || host.caches_kib > 0;
  }
  for (HostSurvey& host : proposal.hosts) {
    std::erase_if(host.kept, [&](const auto& kept) { return !all_jobs && kept.name != plan.name; });
  }
  proposal.caches_stay = proposal.something_may_run();
  proposal.has_caches = proposal.has_caches && !proposal.caches_stay;
  return proposal;
}

std::chrono::milliseconds OlderThan(const CleanArguments& arguments) {
  if (arguments.older_than.empty()) return 0ms;
  const auto milliseconds = ParseDurationMs(arguments.older_than);
  if (milliseconds && *milliseconds > 0) return std::chrono::milliseconds(*milliseconds);
  throw UsageError(Phase::kUsage,
                   fmt::format("--older-than: expected a time like 12h (units: {}), got {}",
                               DurationUnits(), arguments.older_than));
}

std::string Size(uint64_t kib) {
  if (kib < 10 * 1024) return fmt::format("{} KiB", kib);
  if (kib < 10 * 1024 * 1024) return fmt::format("{} MiB", kib >> 10);
  return fmt::format("{} GiB", kib >> 20);
}

// When the job began, as its id has it; 0: it has not.
int64_t BeganNs(const std::string& job) {
  constexpr size_t kTail = std::string_view("20261125T090159Z-06e68b").size();
  std::tm time{};
  const bool has_time = job.size() > kTail && strptime(job.c_str() + job.size() - kTail,
                                                       "%Y%m%dT%H%M%SZ", &time) != nullptr;
  return has_time ? static_cast<int64_t>(timegm(&time)) * 1'000'000'000 : 0;
}

// Of some job to be removed.
bool HaveTaskFiles(const Proposal& proposal) {
  return std::ranges::any_of(proposal.hosts, [&](const HostSurvey& host) {
    return std::ranges::any_of(host.slots, [&](const SlotOnHost& slot) {
      return slot.has_task_files && proposal.jobs.contains(slot.job.job);
    });
  });
}

// Of the jobs to be removed, those that stay by --keep and --older-than.
void LeaveOut(const CleanArguments& arguments, Proposal& proposal) {
  if (!arguments.keep && arguments.older_than.empty()) return;
  proposal.has_caches = false;
  proposal.caches_stay = true;
  std::vector<std::string> jobs(proposal.jobs.begin(), proposal.jobs.end());
  std::ranges::sort(jobs, std::greater(),
                    [](const std::string& job) { return std::pair(BeganNs(job), job); });
  const int64_t latest_ns =
      WallClockNanoseconds() - std::chrono::nanoseconds(OlderThan(arguments)).count();
  for (size_t at = 0; at < jobs.size(); ++at) {
    if (at < arguments.keep.value_or(0) || BeganNs(jobs[at]) > latest_ns) {
      proposal.jobs.erase(jobs[at]);
    }
  }
  proposal.has_task_files = HaveTaskFiles(proposal);
  proposal.spares_kept = arguments.keep.has_value();
  proposal.purged_from_age_s =
      std::chrono::ceil<std::chrono::seconds>(OlderThan(arguments)).count();
}

class ProposalTable {
 public:
  void Add(const std::string& host, const std::string& what, uint64_t kib, std::string_view remark,
           const std::string& age = "-") {
    const std::string text = remark.empty() ? what : fmt::format("{}: {}", what, remark);
    rows_.push_back({Harmless(host), age, Size(kib), Harmless(text)});
  }
  void AddToGo(uint64_t kib) { to_go_kib_ += kib; }

  void PrintAll() const {
    if (rows_.empty()) return;
    PrintLines(AlignColumns(rows_));  // never cut: the user is to know what goes
    if (to_go_kib_ > 0) Print("{} to be removed\n", Size(to_go_kib_));
  }

 private:
  std::vector<std::vector<std::string>> rows_;
  uint64_t to_go_kib_ = 0;
};

// Why the slot's folder stays; nullopt: it goes, or it is not meant.
std::optional<std::string_view> WhyItStays(const Proposal& proposal, const std::string& job) {
  if (proposal.waiting.contains(job)) {
    return "stays for now: the job is over, but its agent is there for a follower or a lost host";
  }
  if (proposal.running.contains(job)) return "stays, it runs";
  if (proposal.in_doubt.contains(job)) return "stays, a host that was not looked at may run it";
  return std::nullopt;
}

std::string_view WhyKeptStays(const Proposal& proposal) {
  return proposal.purges ? "stays by --keep or --older-than"
                         : "stays for the next job of that name; --purge removes it";
}

// Empty: they go.
std::string_view WhyCachesStay(const Proposal& proposal) {
  if (proposal.has_caches) return "";
  if (!proposal.something_may_run()) return "stay";
  return proposal.running.empty() ? "stay, a job may run" : "stay, a job runs";
}

// Others have names that are not meant, or are spared.
bool IsListed(const Proposal& proposal, const std::string& job) {
  return proposal.jobs.contains(job) || WhyItStays(proposal, job);
}

// Where it stays, no command but this one shows it.
void AddKept(const Proposal& proposal, const std::string& host, const KeptOfName& kept,
             ProposalTable& list) {
  constexpr int64_t kSecond = 1'000'000'000;
  if (!IsLeftBehind(proposal, kept.name)) return;
  const uint64_t kib = kept.files.bytes >> 10;
  const bool goes = KeptToGo(proposal).contains(kept.name);
  list.Add(host,
           fmt::format("{{keep}} of {}, {}: {}", kept.name, kept.folder, KeptFilesText(kept.files)),
           kib, goes ? "" : WhyKeptStays(proposal), Span(kept.files.age_s * kSecond));
  if (goes) list.AddToGo(kib);
}

void PrintProposal(const Proposal& proposal) {
  ProposalTable list;
  for (size_t at = 0; at < proposal.hosts.size(); ++at) {
    const std::string& host = proposal.answering[at].name;
    for (const SlotOnHost& slot : proposal.hosts[at].slots) {
      const std::string& job = slot.job.job;
      const std::string what = fmt::format("job {}, slot {}", job, slot.job.slot);
      const std::string age = Span(WallClockNanoseconds() - BeganNs(job));
      if (const auto why = WhyItStays(proposal, job)) {
        list.Add(host, what, slot.size_kib, *why, age);
      } else if (proposal.jobs.contains(job)) {
        list.Add(host, what, slot.size_kib, slot.has_task_files ? "HAS FILES OF TASKS" : "", age);
        list.AddToGo(slot.size_kib);
      }
    }
    for (const KeptOfName& kept : proposal.hosts[at].kept) AddKept(proposal, host, kept, list);
    const uint64_t caches_kib = proposal.hosts[at].caches_kib;
    if (caches_kib == 0) continue;
    if (proposal.has_caches) list.AddToGo(caches_kib);
    list.Add(host, "agents and caches, shared with all other jobs of this account", caches_kib,
             WhyCachesStay(proposal));
  }
  list.PrintAll();
}

// JSON --------------------------------------------------------------------------------------------

json ItemJson(const std::string& host, const char* kind, uint64_t kib, bool goes) {
  return {{"host", host},
          {"kind", kind},
          {"job", nullptr},
          {"slot", nullptr},
          {"name", nullptr},
          {"folder", nullptr},
          {"age_s", nullptr},
          {"bytes", kib * 1024},
          {"has_task_files", nullptr},
          {"goes", goes},
          {"why", ""}};
}

json JobItem(const Proposal& proposal, const std::string& host, const SlotOnHost& slot) {
  constexpr int64_t kSecond = 1'000'000'000;
  const std::string& id = slot.job.job;
  const auto why = WhyItStays(proposal, id);
  json item = ItemJson(host, "job", slot.size_kib, !why);
  item["job"] = id;
  item["slot"] = slot.job.slot;
  item["folder"] = fmt::format("{}/jobs/{}/h{}", slot.job.base, id, slot.job.slot);
  item["age_s"] = (WallClockNanoseconds() - BeganNs(id)) / kSecond;
  item["has_task_files"] = slot.has_task_files;
  if (why) item["why"] = *why;
  return item;
}

json KeptItem(const Proposal& proposal, const std::string& host, const KeptOfName& kept) {
  const bool goes = KeptToGo(proposal).contains(kept.name);
  json item = ItemJson(host, "keep", kept.files.bytes >> 10, goes);
  item["name"] = kept.name;
  item["folder"] = kept.folder;
  item["age_s"] = kept.files.age_s;
  item["bytes"] = kept.files.bytes;
  if (!goes) item["why"] = WhyKeptStays(proposal);
  return item;
}

json ItemsJson(const Proposal& proposal) {
  json items = json::array();
  for (size_t at = 0; at < proposal.hosts.size(); ++at) {
    const std::string& host = proposal.answering[at].name;
    for (const SlotOnHost& slot : proposal.hosts[at].slots) {
      if (IsListed(proposal, slot.job.job)) items.push_back(JobItem(proposal, host, slot));
    }
    for (const KeptOfName& kept : proposal.hosts[at].kept) {
      if (IsLeftBehind(proposal, kept.name)) items.push_back(KeptItem(proposal, host, kept));
    }
    const uint64_t caches_kib = proposal.hosts[at].caches_kib;
    if (caches_kib == 0) continue;
    json item = ItemJson(host, "caches", caches_kib, proposal.has_caches);
    item["why"] = WhyCachesStay(proposal);
    items.push_back(std::move(item));
  }
  return items;
}

// Whether the user says so: by --yes, or now.
bool MayRemove(const CleanArguments& arguments, const Proposal& proposal) {
  const JobsMeant meant{
      .named = true, .running = proposal.running.size(), .finished = proposal.jobs.size()};
  if (arguments.yes || ConsentFor(Deed::kClean, meant) == Consent::kGiven) return true;
  if (arguments.json || !HasTerminal()) {
    throw UsageError(Phase::kUsage, "nothing was removed: there is no terminal to ask on",
                     "the same with --yes removes what is listed; --dry-run lists only");
  }
  return IsConfirmed(
      fmt::format("remove these{}{}?", proposal.has_task_files ? ", files of tasks too" : "",
                  KeptToGo(proposal).empty() ? "" : ", what jobs keep for the next one too"));
}

bool RemoveAll(const Plan& plan, const Proposal& proposal, json* report) {
  const std::vector<std::string> jobs(proposal.jobs.begin(), proposal.jobs.end());
  const std::set<std::string> to_go = KeptToGo(proposal);
  const std::vector<std::string> names(to_go.begin(), to_go.end());
  const auto answers = AskAll<Removal>(proposal.answering, plan.ssh, [&](const House& house) {
    return Clean(house, jobs, proposal.caches_stay, names);
  });
  bool all_answered = true;
  for (size_t at = 0; at < answers.size(); ++at) {
    const std::string& host = proposal.answering[at].name;
    const auto& [removal, error] = answers[at];
    for (const std::string& path : removal.removed) {
      if (report == nullptr)
        Print("{}: removed {}\n", host, path);
      else
        (*report)["removed"].push_back({{"host", host}, {"folder", path}});
    }
    for (const std::string& kept : removal.kept) {
      if (report == nullptr)
        Print("{}: kept {}\n", host, kept);
      else
        (*report)["kept"].push_back({{"host", host}, {"why", kept}});
    }
    if (error) PrintError(*error);
    all_answered = all_answered && !error;
  }
  return all_answered;
}

bool CleanAsJson(const CleanArguments& arguments, const Plan& plan, const Proposal& proposal) {
  json report = {
      {"items", ItemsJson(proposal)}, {"removed", json::array()}, {"kept", json::array()}};
  bool all_answered = true;
  if (!IsEmpty(proposal) && !arguments.dry_run && MayRemove(arguments, proposal)) {
    all_answered = RemoveAll(plan, proposal, &report);
  }
  PrintJson(report);
  return all_answered;
}

// False: a host that had answered did not answer again.
bool CleanAnswering(const CleanArguments& arguments, const Plan& plan, const Proposal& proposal) {
  if (arguments.json) return CleanAsJson(arguments, plan, proposal);
  PrintProposal(proposal);
  const bool is_empty = IsEmpty(proposal);
  if (is_empty) Print("nothing to remove\n");
  if (is_empty || arguments.dry_run) return true;
  fflush(stdout);
  if (MayRemove(arguments, proposal)) return RemoveAll(plan, proposal, nullptr);
  Say("tfdist: nothing was removed\n");
  return true;
}

Plan PlanToClean(const CleanArguments& arguments) {
  if (!arguments.file.empty()) return LoadPlan(arguments.file);
  if (arguments.hosts.empty()) {
    throw UsageError(Phase::kUsage, "clean needs a cluster file, or hosts",
                     "tfdist clean FILE, or tfdist clean -H HOST,...");
  }
  return PlanOfHosts(arguments.hosts, arguments.ssh_config, arguments.transport);
}

}  // namespace

int CleanCommand(const CleanArguments& arguments) {
  (void)OlderThan(arguments);  // a mistake in it is found before any host is asked
  const Plan all_slots = PlanToClean(arguments);
  const Plan plan = OncePerMachine(all_slots);
  Proposal proposal = Propose(plan, Owners(all_slots), arguments.all || !arguments.hosts.empty());
  proposal.purges = arguments.purge;
  LeaveOut(arguments, proposal);
  const bool nothing_to_say = proposal.answering.empty() && !arguments.json;
  const bool all_answered = nothing_to_say || CleanAnswering(arguments, plan, proposal);
  if (proposal.silent.empty()) return all_answered ? kExitSuccess : kExitHost;
  if (proposal.unanswered > 0) {
    PrintError(Error(Phase::kDown,
                     fmt::format("{} did not answer: what lies there stays",
                                 CountedOf(proposal.unanswered, plan.hosts.size(), "host")),
                     "the same again once they are back; or without them, if they never will be"));
  }
  return kExitHost;
}

}  // namespace tfdist::cli
