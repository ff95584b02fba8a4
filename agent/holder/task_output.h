// The task's stdout and stderr, on their way into its log.
#pragma once

#include <poll.h>

#include <vector>

#include "agent/log/log_writer.h"
#include "base/unique_fd.h"
#include "wire/protocol.h"

namespace tfdist::agent {

class TaskOutput {
 public:
  // Makes the pipes: two, or one for both. Throws Error(kCommand).
  TaskOutput(LogOptions log, bool merged);

  // For the child; gone after CloseTaskEnds().
  [[nodiscard]] int stdout_fd() const { return task_ends_.front().get(); }
  [[nodiscard]] int stderr_fd() const { return task_ends_.back().get(); }
  // So that the pipes end when the task and its descendants have closed them.
  void CloseTaskEnds() { task_ends_.clear(); }

  // Adds those that are still open.
  void AddTo(std::vector<pollfd>& fds) const;
  // Moves at most 64 KiB of each pipe that has something.
  void MoveSome();
  // Moves all that is in the pipes now, and not what a stranger may write meanwhile.
  void MoveAll();
  // Of the task's output; see LogWriter::lost_bytes.
  [[nodiscard]] uint64_t lost_bytes() const { return log_.lost_bytes(); }
  // Nobody holds the other ends any more, and all has been moved.
  [[nodiscard]] bool ended() const { return sources_.empty(); }

 private:
  struct Source {
    UniqueFd fd;  // O_NONBLOCK
    protocol::Stream stream;
  };
  enum class Moved { kYes, kEnd };

  void AddPipe(protocol::Stream stream);
  Moved MoveOnce(const Source& source);
  Moved MoveWhatIsThere(const Source& source);

  std::vector<Source> sources_;
  std::vector<UniqueFd> task_ends_;
  std::vector<char> buffer_;
  LogWriter log_;
};

}  // namespace tfdist::agent
