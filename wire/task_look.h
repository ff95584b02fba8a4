// What a host sees of its tasks from outside: for a job that has written nothing for long.
//
//   look LookRequest -> looked HostLook (of each host, as they come) ..., end {}
//
// Slot 0 asks the other hosts; a host that does not answer in time is missing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "job/bytes.h"

namespace tfdist::protocol {

namespace type {
inline constexpr std::string_view kLook = "look";
inline constexpr std::string_view kLooked = "looked";
}  // namespace type

struct LookRequest {
  bool deep = false;    // else only how long the tasks have been silent
  bool stacks = false;  // the Python stack too, where py-spy is there; with `deep`
  bool usage = false;   // CPU, memory and GPUs of each task's processes
};

// One of a task's TCP connections.
struct TaskConnection {
  std::string local;          // "10.0.0.1:40312", "[fd00::1]:40312"
  std::string remote;         // "10.0.0.2:2222"
  bool half_open = false;     // nobody has answered its first packet yet
  uint64_t unread_bytes = 0;  // the other end has not confirmed them
};

// What a task's processes use of one GPU.
struct GpuUse {
  int index = 0;
  int percent = 0;          // of the time in which anything ran on it, whoever it was
  uint64_t used_bytes = 0;  // by these processes; 0: not known
  uint64_t total_bytes = 0;
};

struct TaskLook {
  std::string task;
  int64_t silent_ms = -1;  // since its last output; -1: not known
  std::string state;  // "R", "S", "D", "T" of the task's own process, proc(5); empty: not looked
  int processes = 0;  // itself and what descends from it
  // Of one CPU, all its processes together, over a fifth of a second; with `usage` over half a second.
  double cpu_percent = 0;
  uint64_t memory_bytes =
      0;  // resident, all its processes together; what they share counts for each
  std::vector<GpuUse> gpus;  // on which its processes have memory, as far as nvidia-smi shows
  std::vector<int> ports;    // of the plan
  std::vector<int> listens;  // those of its ports, whatever they are, on which it listens
  std::vector<TaskConnection> connections;  // at most kMostConnections, half-open ones first
  std::string stack;                        // raw text, at most kMostStackBytes; empty: none
};

struct HostLook {
  int slot = 0;
  std::vector<TaskLook> tasks;
};

inline constexpr size_t kMostConnections = 256;
inline constexpr size_t kMostGpusUsed = 64;
inline constexpr size_t kMostStackBytes = 4096;

// What a host may say of itself: `look` cut to size, as slot `slot`. Throws nothing.
HostLook Bounded(HostLook look, int slot);

#define TFDIST_BODY(T)                      \
  void to_json(Json& json, const T& value); \
  void from_json(const Json& json, T& value)
TFDIST_BODY(LookRequest);
TFDIST_BODY(GpuUse);
TFDIST_BODY(TaskConnection);
TFDIST_BODY(TaskLook);
TFDIST_BODY(HostLook);
#undef TFDIST_BODY

}  // namespace tfdist::protocol
