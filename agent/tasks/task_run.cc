#include "agent/tasks/task_run.h"

#include <algorithm>

#include "agent/job_state.h"
#include "agent/log/line_search.h"
#include "agent/log/log_reader.h"

namespace tfdist::agent {
namespace {

constexpr uint64_t kLastLines = 10;
constexpr uint64_t kLastBytes = 4096;

std::string ReadLastLines(const std::filesystem::path& task_folder) {
  LogReader log(task_folder);
  const uint64_t size = log.Size(LogEnd::kClosed);
  LineSearch lines(log, kLastLines, LogEnd::kClosed);
  lines.Step(log, kLastBytes);
  const uint64_t begin = std::max(lines.offset(), size > kLastBytes ? size - kLastBytes : 0);
  return log.Read(begin, kLastBytes, LogEnd::kClosed).data.value;
}

}  // namespace

TaskReport TaskRun::Report() const {
  TaskReport report;
  report.task = description.task;
  report.attempt = attempt;
  report.run = run;
  report.pid = pid;
  report.done = !working();
  report.exit = exit;
  report.last_lines.value = last_lines;
  return report;
}

RunView ReadRunView(const std::filesystem::path& task_folder, int attempt, int run,
                    LastLines last_lines) {
  RunView view;
  view.state = ReadRunState(task_folder / RunFolderName(attempt, run));
  const bool written = !view.state.holder_running || last_lines == LastLines::kAsTheyAre;
  if (view.state.exit && HasFailed(*view.state.exit) && written) {
    view.last_lines = ReadLastLines(task_folder);
  }
  return view;
}

}  // namespace tfdist::agent
