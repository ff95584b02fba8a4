// Events: what happened to a job. The coordinator's journal holds nothing else; wire/protocol.md lists
// the fields of each kind as they are on the wire and on disk.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "job/bytes.h"
#include "job/plan.h"

namespace tfdist::protocol {

struct TaskExit {
  int code = 0;  // exit status, when `signal` is 0
  int signal = 0;
  bool by_us = false;       // we had sent it a signal to end
  std::string error;        // not empty: it could not be executed (and why), or its holder was lost
  bool permanent = false;   // another try would end in the same way: it could not be executed
  uint64_t lost_bytes = 0;  // of the run's output: its host could not write them
  // The kernel killed it for want of memory.
  bool out_of_memory = false;
  bool cpu_time_over = false;  // the kernel ended it, as it had used its limit (RLIMIT_CPU)
  uint64_t peak_bytes = 0;     // memory of the largest of its processes; 0: not known
  // When: on its host's monotonic clock; in an event, on the clock of the events' times. 0: not
  // known.
  int64_t ended_ns = 0;
};

struct Census {
  std::vector<std::string> killed;   // "pid 123 (sleep)": found and ended
  std::vector<std::string> left;     // still there: why
  std::vector<std::string> unknown;  // not known to be gone: why
  // "docker run (pid 123) of worker:0": calls that tasks have made of daemons' clients (daemon_clients.h). What they began may stay.
  std::vector<std::string> clients = {};
};

enum class JobResult { kNone, kSucceeded, kFailed, kStopped };  // kNone: it has none yet

enum class HostState {
  kUnknown,  // not heard of yet
  kConnected,
  kSlow,
  kLost,
  kAgentRestarted,
  kKeeperLost,
};

namespace event {

// Names of the kinds, on the wire.
inline constexpr std::string_view kCommitted = "committed";
inline constexpr std::string_view kAttempt = "attempt";
inline constexpr std::string_view kHost = "host";
inline constexpr std::string_view kTask = "task";  // TaskStarted and TaskExited
inline constexpr std::string_view kRestarting = "restarting";
inline constexpr std::string_view kRun = "run";
inline constexpr std::string_view kWarned = "warned";
inline constexpr std::string_view kClock = "clock";
inline constexpr std::string_view kStopping = "stopping";
inline constexpr std::string_view kCensus = "census";
inline constexpr std::string_view kEnded = "ended";
inline constexpr std::string_view kSnapshot = "snapshot";

struct Committed {
  JobPlan plan;
};

// All tasks start, and what an earlier attempt says does not count any more.
struct Attempt {
  int attempt = 0;
  std::string why;
  std::vector<int> seats;  // the slot whose host stands in for slot i; empty: each its own
};

struct Host {
  int slot = 0;
  HostState state = HostState::kUnknown;
  std::string why;
};

struct TaskStarted {
  std::string task;
  int attempt = 0;
  int run = 0;
  int pid = 0;
};

struct TaskExited {
  std::string task;
  int attempt = 0;
  int run = 0;
  TaskExit exit;
  Bytes last_lines;  // of a failure
};

// A task will start again, alone, or all tasks with it, which stop now: it has failed, or the user
// has asked for it.
struct Restarting {
  bool gang = false;
  std::string task;      // the one that failed; "": a host was lost, or all were asked for
  std::string why;       // first cause, in words
  int64_t delay_ms = 0;  // at least so long from now
  int left = 0;          // restarts left to that task after this one
  bool asked = false;    // by the user: it counts as no failure
};

// A task starts again alone; what still runs of it is ended first.
struct Run {
  std::string task;
  int run = 0;
};

// The job's deadline is near: each task that runs gets a signal.
struct Warned {
  int signal = 0;
  int64_t left_ms = 0;  // until the deadline
};

// How far a host's wall clock is ahead of the clock of the events' times; when it was first
// measured, and when it has changed.
struct Clock {
  int slot = 0;
  int64_t offset_ns = 0;
  int64_t error_ns = 0;  // it may be wrong by so much: half of the time that the messages took
};
void to_json(Json& json, const Clock& value);
void from_json(const Json& json, Clock& value);

struct Stopping {
  JobResult result = JobResult::kNone;
  std::string why;
  std::string task;  // the first to fail, or ""
  bool force = false;
};

struct CensusTaken {
  int slot = 0;
  Census census;
};

struct Ended {
  JobResult result = JobResult::kNone;
  std::vector<int> unconfirmed;  // slots
  std::vector<int> unreachable;
};

// In the place of events that a long log has lost: those from `first` on, up to its own number.
struct Snapshot {
  uint64_t first = 0;
  Json state;  // what all events up to it amount to: job/snapshot.h
};

// Of a kind that this program does not know: passed over.
struct Other {
  std::string kind;
  Json fields = Json::object();
};

using Body = std::variant<Other, Committed, Attempt, Host, TaskStarted, TaskExited, Restarting, Run,
                          Warned, Clock, Stopping, CensusTaken, Ended, Snapshot>;

}  // namespace event

struct Event {
  uint64_t number =
      0;  // 1, 2, ...: position in the log; a snapshot has that of the last event it stands for
  int64_t time_ns = 0;  // wall clock of slot 0
  event::Body body;
};

std::string_view NameOf(JobResult result);  // "" for kNone
std::string_view NameOf(HostState state);   // "" for kUnknown

// "task", "census": as on the wire.
std::string_view KindOf(const event::Body& body);

// It changes what hosts are to do, or ends the job: it is synced to disk before anybody is told.
bool IsDecision(const event::Body& body);
// Number of the first event that it tells of: its own, but for a snapshot.
uint64_t FirstOf(const Event& event);
// As on the wire.
Json FieldsOf(const Event& event);

// {"number", "time_ns", "kind", "fields"}. from_json throws nlohmann's exception or ProtocolError.
void to_json(Json& json, const Event& event);
void from_json(const Json& json, Event& event);

void to_json(Json& json, const JobResult& value);
void from_json(const Json& json, JobResult& value);
void to_json(Json& json, const HostState& value);
void from_json(const Json& json, HostState& value);
void to_json(Json& json, const TaskExit& value);
void from_json(const Json& json, TaskExit& value);
void to_json(Json& json, const Census& value);
void from_json(const Json& json, Census& value);

}  // namespace tfdist::protocol
