// From a shell on a host to an agent that speaks, and what else is done there without an agent.
//
// Whatever the login shell prints first (banner, rc files, locale warnings) is skipped; each
// function takes a channel of Transport::OpenShell that nothing has been written to. Errors carry
// no host.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/failures.h"
#include "cli/link/byte_channel.h"
#include "cli/link/embedded_agent.h"

namespace tfdist::cli {

// Where tfdist's folder ("base") is looked for on a host: `remote_dir`/tfdist alone where it is not
// empty, else the first of $HOME/.cache/tfdist, $XDG_CACHE_HOME/tfdist, $HOME/.tfdist that serves:
// one of this account, in which programs run, and whose parents nobody else may write to (but for
// sticky ones) or owns, root apart. The mode of what is there already is never changed.
// `remote_dir` may begin with
// "~/"; a relative one lies in the home folder. Letters, digits and " ._/~@%+=:,-" only, else
// UsageError.
void CheckRemoteDir(std::string_view remote_dir);

struct BootedAgent {
  std::unique_ptr<ByteChannel> channel;  // right before the agent's first frame
  std::string noise;                     // what came before our own output: the last 64 KiB
  bool uploaded = false;                 // false: the host had this agent already
};

// Brings `agent` to the host where it is missing (BASE/bin/SHA256, 0500, in a folder of 0700), and
// runs it in its role `start`. An upload does not count towards `deadline`; it fails when 32 KiB
// take longer than 30 s. Throws Error: kExec (no shell: says what came instead), kStart (wrong
// system, no usable folder: each one with its reason), kUpload (no space); LostConnection.
BootedAgent StartAgent(std::unique_ptr<ByteChannel> channel, const EmbeddedAgent& agent,
                       const std::string& remote_dir, TimePoint deadline);

// The host answered that it has nothing of a job, neither folder nor process.
class NothingThere : public Error {
 public:
  using Error::Error;
};

// The host has processes of a job, and not its folder.
class FolderGone : public Error {
 public:
  using Error::Error;
};

// Runs the job's own agent of that slot in its role `attach`. `base` is Hello::base, or a
// `remote_dir`. Throws NothingThere when this host has no such job, FolderGone when it has the
// job's processes but not its folder.
BootedAgent AttachAgent(std::unique_ptr<ByteChannel> channel, const std::string& base,
                        const std::string& job, int slot, TimePoint deadline);

struct RemoteJob {
  std::string base;  // absolute path of the tfdist folder that holds it
  std::string job;   // id
  int slot = 0;
  bool running = false;  // a keeper, agent or holder of it runs on this host
};

// The jobs that have a folder on this host, newest first; those of `name` alone unless it is empty.
std::vector<RemoteJob> FindJobs(std::unique_ptr<ByteChannel> channel, const std::string& remote_dir,
                                std::string_view name, TimePoint deadline);

// One slot's folder, with what a user wants to know before it is removed.
struct SlotOnHost {
  RemoteJob job;
  uint64_t size_kib = 0;
  // A task has written something into it, or it is not known that none has.
  bool has_task_files = true;
};

struct HostSurvey {
  std::vector<SlotOnHost> slots;  // newest first
  uint64_t caches_kib = 0;        // agents and received files
};

// All that tfdist has on this host.
HostSurvey Survey(std::unique_ptr<ByteChannel> channel, const std::string& remote_dir,
                  TimePoint deadline);

struct Removal {
  std::vector<std::string> removed;  // absolute paths on the host
  std::vector<std::string> kept;     // "PATH: why"
};

// Removes the folders of `jobs` (ids) that do not run here, and agents and cached files unless
// something runs: here, or (`something_runs`) on other hosts, which may share this home folder.
Removal Clean(std::unique_ptr<ByteChannel> channel, const std::string& remote_dir,
              const std::vector<std::string>& jobs, bool something_runs, TimePoint deadline);

// Removes one slot's folder of a job that does not run there; nothing when there is none.
Removal PurgeJob(std::unique_ptr<ByteChannel> channel, const std::string& base,
                 const std::string& job, int slot, TimePoint deadline);

// Whether `id` is one of a job called `name`: name, UTC time, 6 hexadecimal digits, with dashes
// between.
bool IsJobIdOf(std::string_view id, std::string_view name);

}  // namespace tfdist::cli
