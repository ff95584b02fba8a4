#include "cli/clean/proposal_text.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "cli/render/table.h"
#include "cli/show/kept_text.h"
#include "cli/show/report.h"
#include "cli/stream/print.h"

namespace tfdist::cli {
namespace {

using nlohmann::json;

std::string Size(uint64_t kib) {
  if (kib < 10 * 1024) return fmt::format("{} KiB", kib);
  if (kib < 10 * 1024 * 1024) return fmt::format("{} MiB", kib >> 10);
  return fmt::format("{} GiB", kib >> 20);
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
std::optional<std::string> WhyItStays(const Proposal& proposal, const std::string& job) {
  if (proposal.waiting.contains(job)) {
    return "stays for now: the job is over, but its agent is there for a follower or a lost host";
  }
  if (proposal.running.contains(job)) return "stays, it runs";
  if (proposal.in_doubt.contains(job)) return "stays, a host that was not looked at may run it";
  const auto other = proposal.of_other_projects.find(job);
  if (other != proposal.of_other_projects.end())
    return fmt::format("stays, it was started from {}; --all means it, too", other->second);
  return std::nullopt;
}

std::string_view WhyKeptStays(const Proposal& proposal, const KeptOfName& kept) {
  if (IsOfUnknownAge(proposal, kept)) return "stays, a newer file may be in what was not looked at";
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
           kib, goes ? "" : WhyKeptStays(proposal, kept), Span(kept.files.age_s * kSecond));
  if (goes) list.AddToGo(kib);
}

std::string CachesRemark(const Proposal& proposal, const HostSurvey& host) {
  const std::string_view why = WhyCachesStay(proposal);
  if (!why.empty() || host.task_file_in_caches.empty()) return std::string(why);
  return fmt::format("HAS FILES OF TASKS, as {}", host.task_file_in_caches);
}

std::string_view TaskFilesRemark(const SlotOnHost& slot) {
  if (slot.out_of_time) return "MAY HAVE FILES OF TASKS: looking through it took too long";
  return slot.has_task_files ? "HAS FILES OF TASKS" : "";
}

std::string RemarkOn(const Proposal& proposal, const SlotOnHost& slot) {
  const std::string_view files = TaskFilesRemark(slot);
  if (!proposal.unknown.contains(slot.job.job)) return std::string(files);
  return fmt::format("NOT IN THE LIST OF THIS MACHINE{}{}", files.empty() ? "" : ", ", files);
}

json ItemJson(const std::string& host, const char* kind, uint64_t kib, bool goes) {
  return {{"host", host},          {"kind", kind},        {"job", nullptr},
          {"slot", nullptr},       {"name", nullptr},     {"folder", nullptr},
          {"age_s", nullptr},      {"bytes", kib * 1024}, {"has_task_files", nullptr},
          {"known_here", nullptr}, {"goes", goes},        {"why", ""}};
}

json JobItem(const Proposal& proposal, const std::string& host, const SlotOnHost& slot) {
  constexpr int64_t kSecond = 1'000'000'000;
  const std::string& id = slot.job.job;
  const auto why = WhyItStays(proposal, id);
  json item = ItemJson(host, "job", slot.size_kib, !why);
  item["job"] = id;
  item["slot"] = slot.job.slot;
  item["folder"] = fmt::format("{}/jobs/{}/h{}", slot.job.base, id, slot.job.slot);
  if (BeganNs(id) != 0) item["age_s"] = (WallClockNanoseconds() - BeganNs(id)) / kSecond;
  item["has_task_files"] = slot.has_task_files;
  item["known_here"] = !proposal.unknown.contains(id);
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
  if (!goes) item["why"] = WhyKeptStays(proposal, kept);
  return item;
}

}  // namespace

void PrintProposal(const Proposal& proposal) {
  ProposalTable list;
  for (size_t at = 0; at < proposal.found.hosts.size(); ++at) {
    const std::string& host = proposal.found.answering[at].name;
    for (const SlotOnHost& slot : proposal.found.hosts[at].slots) {
      const std::string& job = slot.job.job;
      const std::string what = fmt::format("job {}, slot {}", job, slot.job.slot);
      const std::string age = BeganNs(job) == 0 ? "-" : Span(WallClockNanoseconds() - BeganNs(job));
      if (const auto why = WhyItStays(proposal, job)) {
        list.Add(host, what, slot.size_kib, *why, age);
      } else if (proposal.jobs.contains(job)) {
        list.Add(host, what, slot.size_kib, RemarkOn(proposal, slot), age);
        list.AddToGo(slot.size_kib);
      }
    }
    for (const KeptOfName& kept : proposal.found.hosts[at].kept)
      AddKept(proposal, host, kept, list);
    const uint64_t caches_kib = proposal.found.hosts[at].caches_kib;
    if (caches_kib == 0) continue;
    if (proposal.has_caches) list.AddToGo(caches_kib);
    list.Add(host, "agents and caches, shared with all other jobs of this account", caches_kib,
             CachesRemark(proposal, proposal.found.hosts[at]));
  }
  list.PrintAll();
  if (const size_t unknown = CountUnknown(proposal); unknown > 0) {
    Print("{} from another machine, or forgotten here by prune: tfdist list does not have {}\n",
          Counted(unknown, "job"), unknown == 1 ? "it" : "them");
  }
}

json ItemsJson(const Proposal& proposal) {
  json items = json::array();
  for (size_t at = 0; at < proposal.found.hosts.size(); ++at) {
    const std::string& host = proposal.found.answering[at].name;
    for (const SlotOnHost& slot : proposal.found.hosts[at].slots) {
      if (IsListed(proposal, slot.job.job)) items.push_back(JobItem(proposal, host, slot));
    }
    for (const KeptOfName& kept : proposal.found.hosts[at].kept) {
      if (IsLeftBehind(proposal, kept.name)) items.push_back(KeptItem(proposal, host, kept));
    }
    const uint64_t caches_kib = proposal.found.hosts[at].caches_kib;
    if (caches_kib == 0) continue;
    json item = ItemJson(host, "caches", caches_kib, proposal.has_caches);
    item["has_task_files"] = !proposal.found.hosts[at].task_file_in_caches.empty();
    item["why"] = WhyCachesStay(proposal);
    items.push_back(std::move(item));
  }
  return items;
}

}  // namespace tfdist::cli
