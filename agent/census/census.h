// Finds what a job has left on this host, by its cookie, and ends it. For `down`, for an agent that
// starts after a crash, and as the proof that nothing is left.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/census/process_table.h"
#include "base/clock.h"
#include "wire/protocol.h"

namespace tfdist::agent {

// Set in every task's environment to CookieValue(); whatever it starts inherits it.
inline constexpr std::string_view kCookieName = "TFDIST_COOKIE";
// layout::SlotPath(job, slot).
std::string CookieValue(std::string_view job, int slot);

// The value in the bytes of a /proc/PID/environ; nullopt where it has no cookie. A task may have put
// any text there: what is no CookieValue is none.
std::optional<std::string> CookieIn(std::string_view environ_bytes);

// What the process's environment had for the cookie at its last exec. A process of another account
// has none, though root could read it: nothing is believed that another account can write.
std::optional<std::string> CookieOfProcess(pid_t pid);

// By what the processes of a slot are known.
struct Marks {
  std::string cookie;
  // Processes that tfdist's own notes name: they count, whatever account they have changed to.
  std::vector<ProcessId> noted = {};
  // Whether a process with the cookie is none of the slot's all the same; not set: none is.
  std::function<bool(const ProcessInfo&, const std::vector<ProcessInfo>& table)> is_foreign = {};
};

// Running processes (not zombies): those of this account with the cookie in their environment, the noted ones, what
// descends from them, and what is in a session led by one of them. Never one of `exclude`, nor
// what is found through it alone.
std::vector<ProcessInfo> FindProcesses(const Marks& marks, const std::vector<pid_t>& exclude);

// A cookie that this account's processes have.
struct FoundCookie {
  std::string value;
  bool owned = false;  // one of tfdist's own processes has it: a keeper, an agent, a holder
};
std::vector<FoundCookie> FindCookies();

// Those that are not owned: keepers, agents and holders of those jobs were all killed, which no
// single fault does.
std::vector<std::string> CookiesWithoutOwner();

// Kills what FindProcesses finds, again and again, until two passes find nothing and nothing that
// was found runs, or `deadline` has come; pid and start time are checked anew before each signal.
// Blocks: for the files thread. `left` says why where it is known: "pid 12 (python3): cannot be
// killed (state D)". A process of another account may be one of those. `left_file` is where the next census finds those, even where nothing else
// shows whose they are; that it cannot be read or written is said in `left` too, for then nobody
// knows that nothing is left.
protocol::Census EndProcesses(const Marks& marks, const std::vector<pid_t>& exclude,
                              const std::filesystem::path& left_file, TimePoint deadline);

}  // namespace tfdist::agent
