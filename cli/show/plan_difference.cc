#include "cli/show/plan_difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "cli/show/host_fold.h"

namespace tfdist::cli {
namespace {

using Task = JobRecord::Task;
using Tasks = std::vector<std::string>;

constexpr size_t kShownWhole = 3;

const Task* Find(const JobRecord& record, const std::string& id) {
  const auto found = std::ranges::find(record.tasks, id, &Task::id);
  return found == record.tasks.end() ? nullptr : &*found;
}

// Of a record of an earlier version the command is not known.
std::string WithoutCommand(const Task& task) {
  std::string line = task.line;
  const size_t at = task.command.empty() ? line.npos : line.find(": " + task.command);
  if (at != line.npos) line.erase(at, 2 + task.command.size());
  return line;
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
    for (const auto& [commands, tasks] : commands_) {
      lines.push_back(fmt::format("command of {}: {} -> {}", FoldHosts(tasks), commands.first,
                                  commands.second));
    }
    if (!gone_.empty()) lines.push_back(FoldHosts(gone_) + " is gone");
    if (!new_.empty()) lines.push_back(FoldHosts(new_) + " is new");
    lines.insert(lines.end(), whole_.begin(), whole_.end());
    if (others_ > 0) lines.push_back(fmt::format("and {} more tasks differ", others_));
    return lines;
  }

 private:
  void Compare(const Task& task, const Task& other) {
    if (WithoutCommand(task) != WithoutCommand(other)) return AddWhole(task, other);
    if (task.command != other.command) commands_[{task.command, other.command}].push_back(task.id);
  }

  void AddWhole(const Task& task, const Task& other) {
    if (whole_.size() == 2 * kShownWhole) {
      ++others_;
      return;
    }
    whole_.push_back("- " + task.line);
    whole_.push_back("+ " + other.line);
  }

  std::map<std::pair<std::string, std::string>, Tasks> commands_;
  Tasks gone_;
  Tasks new_;
  std::vector<std::string> whole_;
  size_t others_ = 0;
};

}  // namespace

std::vector<std::string> PlanDifferences(const JobRecord& running, const JobRecord& wanted) {
  return Difference(running, wanted).Lines();
}

}  // namespace tfdist::cli
