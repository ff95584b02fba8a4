// What the coordinator and the agents tell each other. Both sides send their whole view, not
// changes: a message that is lost, doubled or late does no harm, and a restarted side need not ask
// for anything. protocol.md shows the exchanges.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "wire/protocol.h"

namespace tfdist::agent {

// Types of messages. Log pieces go on a connection of their own (`bulk`), with the messages that
// the CLI's streams have too: read_log, credit, cancel; log, end, error.
namespace control_type {
inline constexpr std::string_view kReport = "report";  // HostReport; each second, and on a change
inline constexpr std::string_view kBulk =
    "bulk";  // {}: this connection is the bulk one; each second
inline constexpr std::string_view kBeat = "beat";  // Beat; each second
inline constexpr std::string_view kOrder =
    "order";  // Order; whenever a report rests on an older one
inline constexpr std::string_view kRelease = "release";  // {}: nobody needs this agent any more
}  // namespace control_type

enum class Goal : uint8_t { kRun = 0, kStop = 1, kKill = 2 };

// Which run of a task the coordinator wants to have been started.
struct TaskOrder {
  std::string task;
  int run = 1;
};

// What one slot is to do; holds until one with a larger number comes.
struct Order {
  uint64_t number = 0;  // of the decision in the journal that it rests on; 0: none yet
  int attempt = 0;
  Goal goal = Goal::kRun;              // of all its tasks
  std::vector<std::string> addresses;  // addresses[i]: of the host that runs slot i's tasks
  std::vector<TaskOrder> tasks;        // that this host is to run
  bool over = false;                   // the job has ended: logs are complete, once their tasks are
  bool warned = false;  // its deadline is near: each task that runs gets its warning signal, once
};

struct TaskReport {
  std::string task;
  int attempt = 0;
  int run = 0;
  int pid = 0;        // 0: not started
  bool done = false;  // nothing of this run is left
  std::optional<protocol::TaskExit> exit;
  protocol::Bytes last_lines;  // of a run that failed
};

// By which the coordinator measures how far this host's clocks are from its own (as NTP does,
// RFC 5905, section 8). Nanoseconds; of the host's monotonic clock where nothing else is said.
struct ClockEcho {
  int64_t beat_ns = 0;   // Beat::time_ns of the last beat
  int64_t heard_ns = 0;  // when that came
  int64_t sent_ns = 0;   // when the report went out
  int64_t wall_ns = 0;   // the same moment on the wall clock
};

struct HostReport {
  uint64_t order = 0;        // number of the Order that it rests on
  uint64_t incarnation = 0;  // of the agent: another one after each start
  std::string
      keeper_lost;  // why its keeper is another one than when its tasks began; empty: it is not
  bool leaving = false;  // the agent ends now, as it was released
  std::vector<TaskReport> tasks;
  bool swept = false;  // the CLI had this slot's tasks ended, whatever the coordinator ordered
  std::optional<protocol::Census> census;  // taken after the last task was stopped
  std::optional<ClockEcho> clock;          // once a beat has come
};

struct Beat {
  uint64_t order = 0;   // number of the newest Order for this slot
  int64_t time_ns = 0;  // on the clock of the events' times
};

void to_json(protocol::Json& json, const Goal& value);
void from_json(const protocol::Json& json, Goal& value);
void to_json(protocol::Json& json, const TaskOrder& value);
void from_json(const protocol::Json& json, TaskOrder& value);
void to_json(protocol::Json& json, const Order& value);
void from_json(const protocol::Json& json, Order& value);
void to_json(protocol::Json& json, const TaskReport& value);
void from_json(const protocol::Json& json, TaskReport& value);
void to_json(protocol::Json& json, const ClockEcho& value);
void from_json(const protocol::Json& json, ClockEcho& value);
void to_json(protocol::Json& json, const HostReport& value);
void from_json(const protocol::Json& json, HostReport& value);
void to_json(protocol::Json& json, const Beat& value);
void from_json(const protocol::Json& json, Beat& value);

}  // namespace tfdist::agent
