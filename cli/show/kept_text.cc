#include "cli/show/kept_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/size_text.h"
#include "cli/show/report.h"
#include "cli/stream/host_fold.h"

namespace tfdist::cli {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

bool IsOneHost(const HostPlan& a, const HostPlan& b) {
  return a.name == b.name || (a.local && b.local);
}

}  // namespace

std::string KeptFilesText(const protocol::KeptFiles& kept) {
  if (kept.files == 0) return kept.all ? "empty" : "files that could not be looked at";
  const std::string text = fmt::format("{} file{}, {}", CountText(kept.files),
                                       kept.files == 1 ? "" : "s", SizeText(kept.bytes));
  if (!kept.all) return "more than " + text;
  return fmt::format("{}, the newest {}, {} ago", text, kept.newest, Span(kept.age_s * kSecond));
}

std::string KeptText(const std::vector<KeptOnHost>& kept) {
  std::vector<std::pair<std::string, std::vector<std::string>>> alike;
  for (const KeptOnHost& on_host : kept) {
    const std::string text = KeptFilesText(on_host.files);
    auto known = std::ranges::find(alike, text, &decltype(alike)::value_type::first);
    if (known == alike.end()) known = alike.insert(known, {text, {}});
    known->second.push_back(on_host.host);
  }
  std::vector<std::string> parts;
  for (const auto& [text, hosts] : alike) {
    parts.push_back(fmt::format("{}: {}", FoldHosts(hosts), text));
  }
  return parts.empty() ? "" : fmt::format("{{keep}}: {}", fmt::join(parts, "; "));
}

std::string KeptByOthers(const std::vector<KeptOnHost>& kept) {
  std::set<std::string> others;
  for (const KeptOnHost& on_host : kept) others.insert(on_host.by.who);
  others.erase("");
  return fmt::format("{}", fmt::join(others, ", "));
}

UsageError KeptByStrangers(const std::string& name, const std::vector<KeptOnHost>& kept) {
  return UsageError(
      Phase::kUsage,
      fmt::format("{{keep}} of {} has what jobs of {} have kept; {}", name, KeptByOthers(kept),
                  KeptText(kept)),
      "--name NAME gives this job its own {keep}; `up --take-keep` goes on with these files");
}

namespace {

bool HasBegun(const JobRecord& other) {
  using Stage = LastSeen::Stage;
  return other.last_seen.stage != Stage::kNotStarted && other.last_seen.stage != Stage::kStarting;
}

// A job that has never begun has kept nothing. Of one of which that is not known, another project's counts.
bool MayHaveKept(const JobRecord& other, const JobRecord& record) {
  using Stage = LastSeen::Stage;
  const bool is_of_another =
      !other.origin.workdir.empty() && other.origin.workdir != record.origin.workdir;
  return other.keeps && other.last_seen.stage != Stage::kNotStarted &&
         (HasBegun(other) || is_of_another);
}

template <typename Counts>
const JobRecord* LastOfItsName(const JobRecord& record, const std::vector<JobRecord>& records,
                               Counts counts) {
  const JobRecord* last = nullptr;
  for (const JobRecord& other : records) {
    if (other.name != record.name || other.id == record.id || !counts(other)) continue;
    if (last == nullptr || last->created < other.created) last = &other;
  }
  return last;
}

}  // namespace

const JobRecord* LastThatKept(const JobRecord& record, const std::vector<JobRecord>& records) {
  return LastOfItsName(record, records,
                       [&](const JobRecord& other) { return MayHaveKept(other, record); });
}

std::optional<NameWarning> FilesLeftBehind(const JobRecord& record,
                                           const std::vector<JobRecord>& records) {
  const JobRecord* last = record.keeps ? nullptr : LastOfItsName(record, records, HasBegun);
  if (last == nullptr || last->elsewhere || last->keeps) return std::nullopt;
  std::vector<std::string> left;
  for (size_t slot = 0; slot < last->hosts.size(); ++slot) {
    const HostPlan& host = last->hosts[slot];
    const auto is_it = [&](const HostPlan& here) { return IsOneHost(here, host); };
    const bool is_cleaned = slot >= last->bases.size() || last->bases[slot].empty();
    // A task that starts in a folder of the host's own writes there.
    const bool is_in_job = std::ranges::any_of(last->tasks, [&](const JobRecord::Task& task) {
      return task.slot == static_cast<int>(slot) && task.folder.empty();
    });
    if (is_in_job && !is_cleaned && std::ranges::none_of(record.hosts, is_it))
      left.push_back(host.name);
  }
  if (left.empty()) return std::nullopt;
  return NameWarning{
      .text = fmt::format("the last job called {} ({}) ran on {}{}: what its tasks wrote there, if "
                          "anything, no task of this job finds",
                          record.name, last->id, FoldHosts(left),
                          left.size() < last->hosts.size() ? " too" : ""),
      .remedy = fmt::format("tfdist pull {} brings it home; what tasks write into {{keep}}, the "
                            "next job on the same hosts finds",
                            last->id)};
}

std::vector<std::string> HostsLeftBehind(const JobRecord& record, const JobRecord& last) {
  std::vector<std::string> left;
  for (const HostPlan& host : last.hosts) {
    const auto is_it = [&](const HostPlan& here) { return IsOneHost(here, host); };
    if (std::ranges::none_of(record.hosts, is_it)) left.push_back(host.name);
  }
  return left;
}

std::vector<JobRecord::Task> TasksThatMoved(const JobRecord& record, const JobRecord& last) {
  std::vector<JobRecord::Task> moved;
  for (const JobRecord::Task& task : record.tasks) {
    const auto before = std::ranges::find(last.tasks, task.id, &JobRecord::Task::id);
    if (before == last.tasks.end()) continue;
    const HostPlan& host = last.hosts.at(static_cast<size_t>(before->slot));
    if (IsOneHost(record.hosts.at(static_cast<size_t>(task.slot)), host)) continue;
    const auto is_it = [&](const HostPlan& here) { return IsOneHost(here, host); };
    if (std::ranges::any_of(record.hosts, is_it)) moved.push_back(*before);
  }
  return moved;
}

std::string OtherFolder(const JobRecord& record, const JobRecord& last) {
  const std::string& before = last.origin.workdir;
  return record.origin.workdir.empty() || before == record.origin.workdir ? "" : before;
}

std::optional<UsageError> KeptByAnotherProject(const JobRecord& record,
                                               const std::vector<JobRecord>& records,
                                               bool name_is_made) {
  const JobRecord* last = record.keeps ? LastThatKept(record, records) : nullptr;
  if (last == nullptr || HostsLeftBehind(record, *last).size() == last->hosts.size())
    return std::nullopt;
  const std::string folder = OtherFolder(record, *last);
  if (folder.empty()) return std::nullopt;
  std::string remedy = "--name NAME gives this program a {keep} of its own";
  if (name_is_made) remedy += fmt::format("; --name {} goes on with that one", record.name);
  return UsageError(
      Phase::kUsage,
      fmt::format("{{keep}} of {} has what job {} has kept, which was started from {}", record.name,
                  last->id, folder),
      remedy);
}

}  // namespace tfdist::cli
