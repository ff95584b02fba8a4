// What the agent knows of the newest run of one task.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "agent/process/run_folder.h"
#include "base/clock.h"
#include "wire/control.h"
#include "wire/protocol.h"

namespace tfdist::agent {

//   none -> preparing -> asked -> done
enum class RunPhase {
  kNone,       // no run was ordered
  kPreparing,  // its spec is being written
  kAsked,      // the keeper has been, or is to be, asked for a holder
  kDone,       // nothing is left of it
};

struct TaskRun {
  explicit TaskRun(protocol::TaskDescription described) : description(std::move(described)) {}

  protocol::TaskDescription description;
  RunPhase phase = RunPhase::kNone;
  int attempt = 0;
  int run = 0;
  bool keeper_knows = false;  // the order to start was taken
  Goal told = Goal::kRun;     // what the holder was told last
  bool warned = false;        // told of the deadline, or begun after that
  // What is left of it at this time cannot be killed: the census will name it.
  std::optional<TimePoint> give_up_at;
  int pid = 0;
  bool holder_ended = false;  // the keeper has said so
  std::optional<protocol::TaskExit> exit;
  std::string last_lines;               // of a run that failed
  std::optional<TimePoint> lost_since;  // with neither holder nor exit status
  std::optional<TimePoint> exit_seen;
  std::optional<TimePoint> refused_since;  // by the keeper, which still looks after an earlier run
  // Connections in TIME_WAIT hold a port of its next run.
  std::optional<TimePoint> port_waits_since;
  bool refreshing = false;
  bool refresh_again = false;

  [[nodiscard]] bool working() const {
    return phase == RunPhase::kPreparing || phase == RunPhase::kAsked;
  }
  // Working, and not given up.
  [[nodiscard]] bool awaited(TimePoint now) const {
    return working() && !(give_up_at && now >= *give_up_at);
  }
  [[nodiscard]] TaskReport Report() const;
};

// A run as its files and its log tell it.
struct RunView {
  RunState state;
  std::optional<std::string> last_lines;  // of a failed run, when they were read
};

// When a failed run's are read: once its holder has ended, or whatever it has written.
enum class LastLines { kOnceTheHolderHasEnded, kAsTheyAre };

// For the file thread. At most 20 lines and 4 KiB of what the run itself has written.
RunView ReadRunView(const std::filesystem::path& task_folder, int attempt, int run,
                    LastLines last_lines);

}  // namespace tfdist::agent
