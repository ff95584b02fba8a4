// What keeper and agent inherit from each other: arguments and fixed descriptor numbers, the same
// in either direction, as a keeper starts agents and an agent can become a keeper.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace tfdist::agent {

// Descriptors of an agent. 0 and 1 are /dev/null, 2 is agent.log.
inline constexpr int kCommandFd = 3;   // socket to the keeper
inline constexpr int kNotesFd = 4;     // read end of the notes
inline constexpr int kListenerFd = 5;  // the coordinator's listening socket, where there is one
inline constexpr int kNameLockFd = 6;  // the lock on the job's name, where there is one
// Descriptor of a holder: write end of the notes.
inline constexpr int kHolderNotesFd = 3;

// With this exit code an agent says that the job is over; any other end has it started again.
inline constexpr int kAgentJobOver = 40;

// What the account's own processes get and ours change for themselves; tasks get it back.
struct HostSettings {
  mode_t umask = 022;
  uint64_t core_limit = 0;  // RLIMIT_CORE, the soft one

  // As this process has them now. Reads the umask by setting it (umask(2)): before any thread
  // exists.
  static HostSettings Capture();
  // For our own processes: private files, and no core file with what an environment holds.
  static void SetOurs();
  // Of this process, for a task.
  void Restore() const;

  // As arguments of a process, and back. Parse throws Error(kUsage).
  static constexpr size_t kArguments = 2;
  void AppendTo(std::vector<std::string>& arguments) const;
  static HostSettings Parse(std::span<const std::string> arguments);

  bool operator==(const HostSettings&) const = default;
};

struct Handover {
  std::filesystem::path slot_folder;  // absolute
  HostSettings host;
  bool has_listener = false;
  bool has_name_lock = false;
  int agent_restarts = 0;
  bool keeper_lost = false;  // the keeper before this one was killed; the agent should report it
  bool notes_lost = false;   // its notes too: nothing of the slot ran any more

  // As arguments behind the role's name, and back. Parse throws Error(kUsage).
  [[nodiscard]] std::vector<std::string> ToArguments() const;
  static Handover Parse(const std::vector<std::string>& arguments);
};

}  // namespace tfdist::agent
