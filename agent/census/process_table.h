// What /proc says about processes: identity that survives the reuse of a pid, and the parent of
// each.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tfdist::agent {

// A pid alone is reused; with the start time (clock ticks since boot, /proc/PID/stat field 22) it
// names one process of this boot.
struct ProcessId {
  pid_t pid = 0;
  uint64_t start_time = 0;
  bool operator==(const ProcessId&) const = default;
};

struct ProcessInfo {
  ProcessId id;
  pid_t parent = 0;
  pid_t group = 0;
  pid_t session = 0;
  uint64_t cpu_ticks = 0;  // in user mode and in the kernel; of sysconf(_SC_CLK_TCK) a second
  char state = '?';        // R, S, D, T, Z, ...: proc(5)
  std::string comm;        // any bytes but NUL, at most 15 of them

  // Ended, though perhaps not reaped yet.
  [[nodiscard]] bool ended() const { return state == 'Z' || state == 'X'; }
  // One of HiddenChildren.
  [[nodiscard]] bool hidden() const { return state == '?'; }
};

// One line of /proc/PID/stat; nullopt when it is not one. `comm` may hold anything, also ") R 1".
std::optional<ProcessInfo> ParseStat(std::string_view line);

// nullopt when there is no such process.
std::optional<ProcessInfo> ReadProcess(pid_t pid);

// Whether that very process still runs (a zombie does not).
bool IsRunning(const ProcessId& id);

bool Contains(const std::vector<ProcessInfo>& processes, const ProcessId& id);

// All processes that can be seen, in no special order; those that end meanwhile may be missing.
std::vector<ProcessInfo> ReadProcessTable();

// The children of this thread of which /proc shows nothing (ProcessesHiddenBy), though they are there: nobody else
// can reap them, so their pids are not reused. Their start time is 0. None where CanListChildren is false.
std::vector<ProcessInfo> HiddenChildren();

// Whether the kernel says who its children are (CONFIG_PROC_CHILDREN).
bool CanListChildren();

// What hides processes of this account in /proc: "hidepid=2"; empty when nothing does. With it Linux shows an account
// only those of its processes that are dumpable: not ssh-agent, for example.
std::string ProcessesHiddenBy();
// Of this process: the further ones, and the effective one at the end.
std::vector<gid_t> OwnGroups();
// In the text of a /proc/PID/mountinfo, for an account of these groups.
std::string HidingOptionIn(std::string_view mountinfo, const std::vector<gid_t>& groups);

// Children of `root`, their children and so on, without `root`; ended ones included. Left out: the
// processes of `kept`, and what descends from them.
std::vector<ProcessInfo> Descendants(pid_t root, const std::vector<ProcessInfo>& table,
                                     const std::vector<pid_t>& kept = {});

// "pid 123 (sleep)"; control characters and bytes above 127 in the name are shown as '?'.
std::string Describe(const ProcessInfo& process);

// Changes at each boot of the machine, and of the container: pids and start times of another boot
// mean nothing. Empty when unreadable.
std::string BootId();

// Its oom_score_adj (proc(5)), which what it starts inherits; nullopt where it cannot be read.
std::optional<int> OomScoreOf(pid_t pid);

// Whether it is of this account by each of its user ids, which is what ptrace(2) asks of everybody
// but root. What another account runs may become this one (setuid), in an environment and under a
// name of that account's choice.
bool IsOfThisAccount(pid_t pid);

// What it runs (/proc/PID/exe), if it is of this account: what another account's process shows of itself is not believed,
// though root can see it. Empty too where nobody but root can see it, as of an agent, which holds keys.
std::filesystem::path ExecutableOf(pid_t pid);

// Whether the process has a handler for that signal, or blocks it, as a program with a signalfd(2) does.
bool Handles(pid_t pid, int signal);

// The text of /proc/PID/cgroup: which cgroups it is in. Empty when unreadable.
std::string CgroupsOf(pid_t pid);

}  // namespace tfdist::agent
