#include "cli/show/plan_difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/text.h"
#include "cli/show/host_fold.h"
#include "cli/show/report.h"

namespace tfdist::cli {
namespace {

using Task = JobRecord::Task;
using Tasks = std::vector<std::string>;
// By key of the cluster file.
using Settings = std::map<std::string, std::string>;

constexpr size_t kMostLines = 8;

// The words of RenderTaskLine (render.h), in their order, and what the cluster file calls them.
constexpr std::pair<std::string_view, std::string_view> kWords[] = {
    {" on ", "host"},       {" port ", "port"},     {" gpus ", "gpus"},  {" restart ", "restart"},
    {" output ", "output"}, {" log ", "log_limit"}, {" grace ", "grace"}};

const Task* Find(const JobRecord& record, const std::string& id) {
  const auto found = std::ranges::find(record.tasks, id, &Task::id);
  return found == record.tasks.end() ? nullptr : &*found;
}

// "gang/3/2000ms" as the keys of a rule.
std::string RestartWords(std::string_view rule) {
  const std::string policy(TakeUpTo('/', rule));
  const std::string limit(TakeUpTo('/', rule));
  return fmt::format("{}, limit {}, backoff {}", policy, limit, rule);
}

// " port dashboard 8787 STEPS=sha256:12ab34cd": values of variables stay unknown.
void AddPortsAndVariables(std::string_view words, Settings& settings) {
  while (!words.empty()) {
    const std::string_view word = TakeWord(words);
    if (word == "port") {
      const std::string_view name = TakeWord(words);
      settings[fmt::format("more_ports.{}", name)] = TakeWord(words);
      continue;
    }
    const size_t equals = word.find('=');
    if (equals != word.npos)
      settings[fmt::format("env.{}", word.substr(0, equals))] = word.substr(equals + 1);
  }
}

// Of a record of an earlier version the command is not known, and stands in its grace.
Settings SettingsOf(const Task& task) {
  std::string line = task.line;
  const size_t at = task.command.empty() ? line.npos : line.find(": " + task.command);
  if (at != line.npos) line.erase(at, 2 + task.command.size());
  Settings settings;
  std::string_view rest = line;
  std::string last;
  for (const auto& [word, key] : kWords) {
    const size_t next = rest.find(word);
    if (next == rest.npos) continue;
    if (!last.empty()) settings[last] = rest.substr(0, next);
    rest.remove_prefix(next + word.size());
    last = key;
  }
  if (!last.empty()) settings[last] = TakeWord(rest);
  AddPortsAndVariables(rest, settings);
  if (settings.contains("restart")) settings["restart"] = RestartWords(settings["restart"]);
  if (!task.command.empty()) settings["command"] = task.command;
  return settings;
}

std::string Changed(const std::string& key, const std::string& from, const std::string& to,
                    const Tasks& tasks) {
  const std::string subject = fmt::format("{} of {}", key, FoldHosts(tasks));
  if (key.starts_with("env.")) {
    return fmt::format("{}: {}", subject,
                       from.empty() ? "new"
                       : to.empty() ? "gone"
                                    : "another value");
  }
  return fmt::format("{}: {} -> {}", subject, from, to);
}

class Difference {
 public:
  Difference(const JobRecord& running, const JobRecord& wanted) {
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
    if (!gone_.empty()) lines.push_back(FoldHosts(gone_) + " is gone");
    if (!new_.empty()) lines.push_back(FoldHosts(new_) + " is new");
    if (lines.size() > kMostLines) {
      const size_t others = lines.size() - kMostLines;
      lines.resize(kMostLines);
      lines.push_back(fmt::format("and {}", Counted(others, "other difference")));
    }
    return lines;
  }

 private:
  void Compare(const Task& task, const Task& other) {
    Settings before = SettingsOf(task);
    Settings after = SettingsOf(other);
    for (const auto& [key, value] : before) (void)after[key];
    for (const auto& [key, value] : after) {
      if (before[key] != value) changes_[{key, before[key], value}].push_back(task.id);
    }
  }

  std::map<std::tuple<std::string, std::string, std::string>, Tasks> changes_;
  Tasks gone_;
  Tasks new_;
};

}  // namespace

std::vector<std::string> PlanDifferences(const JobRecord& running, const JobRecord& wanted) {
  return Difference(running, wanted).Lines();
}

}  // namespace tfdist::cli
