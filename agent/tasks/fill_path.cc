#include "agent/tasks/fill_path.h"

#include <algorithm>
#include <variant>

#include "base/text.h"

namespace tfdist::agent {

using protocol::TaskDescription;
using protocol::Text;

void FillPath(Text& text, std::string_view marker, const std::string& path) {
  for (Text::Part& part : text.parts) {
    if (auto* literal = std::get_if<std::string>(&part)) ReplaceAll(*literal, marker, path);
  }
}

void FillPath(std::vector<TaskDescription>& tasks, std::string_view marker,
              const std::string& path) {
  for (TaskDescription& task : tasks) {
    if (task.container && protocol::NamesPath(task, marker)) {
      auto& mounts = task.container->mounts;
      for (auto& mount : mounts) ReplaceAll(mount.source, marker, path);
      // An engine refuses two mounts at one place; there may be one of the user's own.
      if (std::ranges::find(mounts, path, &protocol::Mount::target) == mounts.end()) {
        mounts.push_back({path, path, true});
      }
    }
    for (Text& text : task.argv) FillPath(text, marker, path);
    for (auto& [name, text] : task.env) FillPath(text, marker, path);
    FillPath(task.cwd, marker, path);
    FillPath(task.conda, marker, path);
  }
}

}  // namespace tfdist::agent
