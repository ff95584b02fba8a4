#include "cli/show/plan_difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "cli/show/report.h"
#include "cli/stream/host_fold.h"

namespace tfdist::cli {
namespace {

using Task = JobRecord::Task;
using Tasks = std::vector<std::string>;

constexpr size_t kMostLines = 8;

const Task* Find(const JobRecord& record, const std::string& id) {
  const auto found = std::ranges::find(record.tasks, id, &Task::id);
  return found == record.tasks.end() ? nullptr : &*found;
}

// With what is not among the settings, by what the file calls it.
Settings SettingsOf(const Task& task) {
  Settings settings = task.settings;
  settings["command"] = task.command;
  return settings;
}

// Of a variable only a hash is known.
std::string ChangedValue(const std::string& from, const std::string& to) {
  if (from.empty()) return "new";
  return to.empty() ? "gone" : "another value";
}

// "gpu[1-2] (4 slots), gpu3". Spare hosts are a setting.
std::string HostsOf(const JobRecord& record) {
  std::vector<std::pair<std::string, int>> slots;
  for (const HostPlan& host : record.hosts) {
    if (host.spare) continue;
    const auto known = std::ranges::find(slots, host.name, &std::pair<std::string, int>::first);
    known == slots.end() ? (void)slots.emplace_back(host.name, 1) : (void)++known->second;
  }
  std::string text;
  for (size_t at = 0; at < slots.size();) {
    const int count = slots[at].second;
    std::vector<std::string> alike;
    for (; at < slots.size() && slots[at].second == count; ++at) alike.push_back(slots[at].first);
    text += fmt::format("{}{}{}", text.empty() ? "" : ", ", FoldHosts(alike),
                        count == 1 ? "" : fmt::format(" ({} slots)", count));
  }
  return text;
}

// "ps:0, master:0 are"
std::string Are(const Tasks& tasks) {
  return FoldHosts(tasks) + (tasks.size() == 1 ? " is" : " are");
}

std::string Changed(const std::string& key, const std::string& from, const std::string& to,
                    const Tasks& tasks) {
  const std::string subject = tasks.empty() ? key : fmt::format("{} of {}", key, FoldHosts(tasks));
  if (key.starts_with("env.")) return fmt::format("{}: {}", subject, ChangedValue(from, to));
  const auto shown = [](const std::string& value) { return value.empty() ? "none" : value; };
  return fmt::format("{}: {} -> {}", subject, shown(from), shown(to));
}

class Difference {
 public:
  Difference(const JobRecord& running, const JobRecord& wanted) {
    const std::string before = HostsOf(running);
    const std::string after = HostsOf(wanted);
    same_hosts_ = before == after;
    if (!same_hosts_) changes_[{"hosts", before, after}];
    if (!running.settings.empty()) Note(running.settings, wanted.settings, "");
    for (const Task& task : running.tasks) {
      const Task* other = Find(wanted, task.id);
      other == nullptr ? gone_.push_back(task.id) : Compare(task, *other);
    }
    for (const Task& task : wanted.tasks) {
      if (Find(running, task.id) == nullptr) new_.push_back(task.id);
    }
  }

  [[nodiscard]] std::vector<std::string> Lines() const {
    std::vector<std::string> lines;
    for (const auto& [change, tasks] : changes_) {
      const auto& [key, from, to] = change;
      lines.push_back(Changed(key, from, to, tasks));
    }
    if (!gone_.empty()) lines.push_back(Are(gone_) + " gone");
    if (!new_.empty()) lines.push_back(Are(new_) + " new");
    if (lines.size() > kMostLines) {
      const size_t others = lines.size() - kMostLines;
      lines.resize(kMostLines);
      lines.push_back(fmt::format("and {}", Counted(others, "other difference")));
    }
    return lines;
  }

 private:
  void Compare(const Task& task, const Task& other) {
    // Of a record of an earlier version nothing is known.
    if (!task.settings.empty()) Note(SettingsOf(task), SettingsOf(other), task.id);
  }

  // `task`: empty, for the whole job's.
  void Note(Settings before, Settings after, const std::string& task) {
    for (const auto& [key, value] : before) (void)after[key];
    for (const auto& [key, value] : after) {
      // Where the hosts differ, so do the tasks' places.
      if (before[key] == value || (key == "host" && !same_hosts_)) continue;
      Tasks& tasks = changes_[{key, before[key], value}];
      if (!task.empty()) tasks.push_back(task);
    }
  }

  std::map<std::tuple<std::string, std::string, std::string>, Tasks> changes_;
  Tasks gone_;
  Tasks new_;
  bool same_hosts_ = true;
};

}  // namespace

std::vector<std::string> PlanDifferences(const JobRecord& running, const JobRecord& wanted) {
  return Difference(running, wanted).Lines();
}

std::string ChangedFilesText(const std::vector<std::string>& changed) {
  constexpr size_t kShown = 10;
  const size_t shown = std::min(changed.size(), kShown);
  return fmt::format(
      "workdir changed: {}{}",
      fmt::join(changed.begin(), changed.begin() + static_cast<ptrdiff_t>(shown), ", "),
      changed.size() > shown ? fmt::format(" and {} more", changed.size() - shown) : "");
}

}  // namespace tfdist::cli
