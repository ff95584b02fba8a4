#include "agent/tasks/task_run.h"

#include <algorithm>

#include "agent/log/line_search.h"
#include "agent/log/log_reader.h"
#include "job/state.h"

namespace tfdist::agent {
namespace {

constexpr uint64_t kLastLines = 20;
constexpr uint64_t kLastBytes = 4096;

// The end of the piece, from the first byte on that no other run has written. Text without a record
// is of the run whose holder was killed, or of one before: what follows it is.
std::string TextOf(const protocol::LogPiece& piece, int attempt, int run) {
  size_t begin = 0;
  size_t end = 0;
  for (const protocol::LogSegment& segment : piece.segments) {
    end += segment.size_bytes;
    const bool known = segment.attempt != 0;
    if (known && (segment.attempt != attempt || segment.run != run)) begin = end;
  }
  return piece.data.substr(std::min(begin, piece.data.size()));
}

std::string ReadLastLines(const std::filesystem::path& task_folder, int attempt, int run) {
  LogReader log(task_folder);
  const uint64_t size = log.Size(LogEnd::kClosed);
  LineSearch lines(log, kLastLines, size, LogEnd::kClosed);
  lines.Step(log, kLastBytes);
  const uint64_t begin = std::max(lines.offset(), size > kLastBytes ? size - kLastBytes : 0);
  return TextOf(log.Read(begin, kLastBytes, LogEnd::kClosed), attempt, run);
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
    view.last_lines = ReadLastLines(task_folder, attempt, run);
  }
  return view;
}

}  // namespace tfdist::agent
