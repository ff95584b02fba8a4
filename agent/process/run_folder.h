// The folder of one run, `<slot folder>/tasks/<task folder>/run-<attempt>-<run>/`: what the agent
// and the holder tell each other in files, so that either may die at any moment.
//
//   spec   written by the agent before the holder is started: RunSpec, 0600 (it holds the
//          environment)
//   env    of a task in a container, written before the spec: its variables, for the engine's client; 0600
//   container  its id, written by that client
//   pid    written by the holder once the task is forked: both processes' identity
//   left   written by the holder where it has ended what the task left running: a process a line
//   clients  written by the holder once it has seen that the task runs a client of a daemon: a call a line
//   exit   written by the holder when the task has ended, or by the keeper when there is no
//          holder to do it: every run that was asked for gets one
//   exit.later  the place for a later `exit`. Who has seen the end of all that the run had started, holder
//          or keeper, takes it away; where it is still there nobody has
//
// Each appears as a whole (written aside, then renamed) and holds a record (run_records.h). They survive the
// death of processes; a power failure ends the run anyway, so none is worth an fsync.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/process/run_records.h"
#include "wire/protocol.h"

namespace tfdist::agent {

// Of a run whose holder was killed: what two pipes hold, and a piece that was read and not written. Nobody else has
// their other ends. What a full disk had not taken of it before is not counted anywhere else than in the log.
inline constexpr const char* kOutputLost = "its last output may be lost, at most 192 KiB";

struct RunFile {
  const char* name;  // NAME.part, too, while it is written
  bool is_secret;    // it has the task's environment
};
// All files that the folder of one run may have. They are removed in this order: where `pid` stays and `exit` is gone, a
// census believes that the exit code was lost.
inline constexpr std::array<RunFile, 10> kRunFiles = {
    {{.name = "spec", .is_secret = true},
     {.name = "env", .is_secret = true},
     {.name = "container", .is_secret = false},
     {.name = "pid", .is_secret = false},
     {.name = "left", .is_secret = false},
     {.name = "clients", .is_secret = false},
     {.name = "exit", .is_secret = false},
     {.name = "exit.later", .is_secret = false},
     // Of a set-up's run; its words may hold variables of the host.
     {.name = "order", .is_secret = true},
     {.name = "failure", .is_secret = false}}};

// "run-<attempt>-<run>"
std::string RunFolderName(int attempt, int run);

// Makes `run_folder` (0700), takes the place of its `exit` on the disk, twice, and writes its `spec`: where a task can
// start, its end can be told, and a disk that fills up meanwhile loses neither it nor the correction of its `lost_bytes`.
// Throws Error(kFiles).
void WriteRunSpec(const std::filesystem::path& run_folder, const RunSpec& spec);
// Makes `run_folder` and writes its `env`; returns where that is. Throws Error(kFiles).
std::filesystem::path WriteContainerEnv(const std::filesystem::path& run_folder,
                                        std::string_view text);
bool HasSpec(const std::filesystem::path& run_folder);
// The newest run in `task_folder`, {attempt, run}; nullopt when there is none. One without a spec
// is none: an agent was killed while it made it, or the job is over.
std::optional<std::pair<int, int>> FindNewestRun(const std::filesystem::path& task_folder);
// Throws Error(kFiles) when it is missing, torn or of an unknown format.
RunSpec ReadRunSpec(const std::filesystem::path& run_folder);

struct RunState {
  std::optional<RunPids> pids;
  // Its `lost_bytes` may grow until the holder has ended. `error` is set when the task could not be
  // executed or its holder was lost; then `code` and `signal` mean nothing.
  std::optional<protocol::TaskExit> exit;
  // The holder runs: it may still move output, and another run of this task must not be started.
  bool holder_running = false;
  // In this boot nobody has seen the end of all that it had started, whether or not its task's own end is known: its holder
  // was killed, and the keeper too or it is not done yet.
  bool lost = false;
};

// What is known of a run, from its files and /proc. A torn or missing file counts as not written.
// Neither `exit` nor a running holder: not started yet, or the holder was killed and the keeper has
// yet to write `exit`; it stays so only if both were killed, or the disk has failed.
RunState ReadRunState(const std::filesystem::path& run_folder);

// What the run's task has left running when it ended, and what was ended then: "pid 12 (raylet)". Unreadable: nothing.
std::vector<std::string> ReadRunLeft(const std::filesystem::path& run_folder);

// Which calls of daemons' clients the run's task has made: "docker run (pid 12)". Unreadable: nothing.
std::vector<std::string> ReadRunClients(const std::filesystem::path& run_folder);

// For holder and keeper. All throw Error(kFiles). -------------------------------------------------

void WriteRunPids(const std::filesystem::path& run_folder, const RunPids& pids);

// Replaces what was written before.
void WriteRunLeft(const std::filesystem::path& run_folder,
                  const std::vector<std::string>& processes);

// Likewise.
void WriteRunClients(const std::filesystem::path& run_folder,
                     const std::vector<std::string>& calls);

// Nothing of the run is left, and no correction of its `exit` will come. Never fails: the run then counts as lost.
void NoteThatAllHasEnded(const std::filesystem::path& run_folder);
// A long `error` is cut. Replaces an earlier one; only the first two use the reserved places.
void WriteRunExit(const std::filesystem::path& run_folder, const protocol::TaskExit& exit);

}  // namespace tfdist::agent
