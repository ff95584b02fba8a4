// Whether the kernel has killed a process for want of memory, by its own count: of the memory cgroup
// that the task runs in, or of the whole host where that cannot be read.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

#include "base/clock.h"

namespace tfdist::agent {

// The file in which the kernel counts the OOM kills of a memory cgroup, from the texts of
// /proc/PID/cgroup and /proc/self/mountinfo; nullopt: none is mounted. Source: cgroups(7), proc(5).
std::optional<std::filesystem::path> OomCountFile(std::string_view cgroups,
                                                  std::string_view mounts);
// The number behind "oom_kill " at the begin of a line: memory.events, memory.oom_control, vmstat.
std::optional<uint64_t> OomKillsIn(std::string_view text);

class MemoryWatch {
 public:
  // Of the process `pid`, which has just begun.
  explicit MemoryWatch(pid_t pid);
  // By a count in this file.
  explicit MemoryWatch(std::filesystem::path file);

  // When to call Look() next. It keeps the time short for which a kill may be another one's.
  [[nodiscard]] TimePoint next_look() const { return next_look_; }
  void Look();
  // A process has been killed since the last look; or, where that was a moment ago, since the one before: it may have
  // come between a kill and the news of it.
  [[nodiscard]] bool HasKilled() const;

 private:
  static constexpr std::chrono::minutes kInterval{1};
  static constexpr std::chrono::seconds kNewsTakes{10};  // the tear-down of a large program

  [[nodiscard]] std::optional<uint64_t> Count() const;

  std::filesystem::path file_;
  std::optional<uint64_t> known_before_;  // at the look before the last
  std::optional<uint64_t> known_;
  TimePoint looked_;
  TimePoint next_look_;
};

}  // namespace tfdist::agent
