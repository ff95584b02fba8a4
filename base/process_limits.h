// What keeps this account from starting processes and threads, which for Linux is one limit, from opening files, from having
// memory and from writing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace tfdist {

// The limits that this process finds, with their numbers: "ulimit -u is 100, pids.max of its cgroup is 64". Empty when
// there is none.
std::string ProcessLimits();

// Adds them to `why`, in parentheses.
std::string WithProcessLimits(const std::string& why);

inline constexpr std::string_view kProcessLimitRemedy =
    "end processes of this account there, or have the limit raised (ulimit -u, nproc in "
    "limits.conf, TasksMax of systemd)";

inline constexpr std::string_view kDescriptorLimitRemedy =
    "have the hard limit raised (ulimit -Hn, nofile in limits.conf, LimitNOFILE of systemd)";

inline constexpr std::string_view kMemoryLimitRemedy =
    "free memory there, or have the limit raised (ulimit -v or -d, as in limits.conf, MemoryMax of "
    "systemd)";

inline constexpr std::string_view kFileSizeLimitRemedy =
    "have the limit raised (ulimit -f, fsize in limits.conf, LimitFSIZE of systemd)";

inline constexpr std::string_view kRoomRemedy =
    "make room there, or set remote_dir in [ssh] (--set ssh.remote_dir=FOLDER)";

// Limits on what a task itself may use that may end it long after its start: CPU time, the size of files, and a memory cgroup too small
// for most programs. Each as {why, remedy}.
std::vector<std::pair<std::string, std::string>> LowLimitsOfTasks();

// Where the job's own files do not fit.
inline constexpr std::string_view kRoomForWorkRemedy =
    "make room there, or set remote_dir in [ssh] (--set ssh.remote_dir=FOLDER); .tfdistignore "
    "keeps files of the work folder at home";

inline constexpr std::string_view kWritableRemedy =
    "set remote_dir in [ssh] to a folder in which you may write (--set ssh.remote_dir=FOLDER)";

// The remedy where the last words of a program on a host say that it could not have a process, a file, memory or room on a disk, or
// may not write; else empty.
std::string_view LimitRemedy(std::string_view words);

// Starts that number of threads at once, for a moment, each with a stack of `stack_bytes` (0: the usual one); where it cannot, again
// for a second. Throws Error(phase) that says how many there may be, and which limits hold.
void CheckRoomForThreads(int count, size_t stack_bytes, Phase phase);

// Throws Error(phase) where a process may have fewer descriptors than `least`, however it asks.
void CheckRoomForDescriptors(size_t least, Phase phase);

// The largest file that this process may write (`ulimit -f`); nullopt: any.
std::optional<uint64_t> FileSizeLimit();

// Throws Error(phase) where a process may not write files of `least_bytes`.
void CheckRoomForFiles(uint64_t least_bytes, Phase phase);

// Throws Error(phase) where the stack of a process may be smaller than the agent's programs need, which the kernel would end.
void CheckRoomForStack(Phase phase);

}  // namespace tfdist
