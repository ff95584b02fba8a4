// Which clients of daemons a task runs (job/daemon_clients.h): what they begin is no child of the task, and may stay. Nobody
// else can tell afterwards. Sees a client when its file is opened, where PATH leads to it, and now and then what runs.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "agent/process/run_records.h"
#include "base/clock.h"
#include "base/unique_fd.h"

namespace tfdist::agent {

class ClientWatch {
 public:
  // Of what descends from this process. What it sees goes into the run's `clients` (run_folder.h).
  ClientWatch(const RunSpec& spec, std::filesystem::path run_folder);

  // For poll(2), POLLIN: Take() then. -1: nothing tells of a start.
  [[nodiscard]] int fd() const { return opened_.get(); }
  void Take();
  [[nodiscard]] TimePoint next_look() const { return next_look_; }
  // `at_end`: those that run now are about to be ended, or have outlived the task.
  void Look(bool at_end = false);

 private:
  struct Seen {
    int first_pid = 0;
    int more = 0;
  };

  void Note(const std::string& words, int pid);
  void Plan(TimePoint begun);

  std::filesystem::path run_folder_;
  UniqueFd opened_;  // inotify(7)
  SystemClock clock_;
  TimePoint next_look_;
  std::chrono::milliseconds pause_;  // where no start is told
  size_t looks_due_ = 0;             // since one was
  TimePoint::duration cost_{};       // of the looks since the last rest
  TimePoint rests_until_;
  std::set<std::pair<int, std::string>> noted_;
  std::map<std::string, Seen> seen_;  // by their words
};

}  // namespace tfdist::agent
