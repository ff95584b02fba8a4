// What went wrong in a job's life, told from its events: who failed first each time, what followed
// from it, and who only ended because of it. For `why`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "job/state.h"

namespace tfdist::cli {

// A run of a task that ended, and not by tfdist's hand: as a failure, but for those of Incident::ended_before.
struct Failure {
  std::string task;
  std::string host;
  int attempt = 0;
  int run = 0;
  int64_t time_ns = 0;  // of its end, as far as that is known
  protocol::TaskExit exit;
  std::string last_lines;  // raw bytes
};

enum class Consequence { kTaskRestart, kGangRestart, kJobFailed, kNone };

// One thing that went wrong.
struct Incident {
  Consequence consequence = Consequence::kNone;
  int64_t time_ns = 0;
  int attempt = 0;
  std::string why;  // the coordinator's word
  std::optional<Failure>
      first;  // absent: none had failed. The cause may be a lost host all the same
  // Other tasks that failed in the same attempt before all were stopped.
  std::vector<Failure> collateral;
  // Tasks that had ended with 0 in that attempt within 15 minutes before `first` failed, in the order of their ends: it may have lost one
  // that it needs.
  std::vector<Failure> ended_before;
};

// Events must come in order.
class Story {
 public:
  // At most the newest 1,000 incidents are kept.
  void Add(const protocol::Event& event);

  // In order; failures of which nothing followed (yet) at the end.
  [[nodiscard]] std::vector<Incident> Incidents() const;
  [[nodiscard]] size_t forgotten() const { return forgotten_; }
  [[nodiscard]] const protocol::JobState& state() const { return state_; }

 private:
  void AddFailure(const protocol::event::TaskExited& exited);
  [[nodiscard]] Failure EndOf(const protocol::event::TaskExited& exited) const;
  [[nodiscard]] std::vector<Failure> EndedBefore(const Failure& failure) const;
  void BlameTheHost();
  void AddIncident(const protocol::Event& event, Consequence consequence, const std::string& task,
                   std::string why);

  protocol::JobState state_;
  std::vector<Incident> incidents_;
  std::vector<Failure> open_;   // of this attempt, without a consequence so far
  std::vector<Failure> ended_;  // the newest of those that ended with 0
  size_t forgotten_ = 0;
};

// What the job waits for at `now_ns`, a line each, the most important first; empty: for nothing but
// its tasks' own work. `live`: its coordinator was asked.
std::vector<std::string> WaitsFor(const protocol::JobState& state, bool live, int64_t now_ns);

// "worker:0 on h1 ended with exit code 0, 1.2 s ago: ...", where others still run that may wait for it; else empty.
std::string MayWaitForThoseThatEnded(const protocol::JobState& state, int64_t now_ns);

// The first part of that: "worker:0 on h1 ended with exit code 0", or of several "worker:[0-2] ended ..., the last one".
std::string EndedWell(const std::vector<Failure>& ended);

}  // namespace tfdist::cli
