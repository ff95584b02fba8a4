// Starts an agent through a shell on a host, and does there what needs no agent.
//
// Each function takes a fresh channel of Transport::OpenShell. It skips what the login shell prints
// first (banner, rc files, locale warnings). Errors carry no host.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/failures.h"
#include "cli/channel/byte_channel.h"
#include "cli/link/embedded_agent.h"
#include "job/layout.h"

namespace tfdist::cli {

// Where tfdist's folder ("base") is on a host: `remote_dir`/tfdist if `remote_dir` is not empty,
// else the first usable one of $HOME/.cache/tfdist, $XDG_CACHE_HOME/tfdist and $HOME/.tfdist.
// Usable: this account owns it, programs can be executed in it, and each parent folder belongs to
// this account or root and is not writable for others (unless it is sticky). Modes of existing
// folders are never changed. `remote_dir` may begin with "~/"; a relative path counts from the home
// folder. Throws UsageError for characters other than letters, digits and " ._/~@%+=:,-".
void CheckRemoteDir(std::string_view remote_dir);

struct BootedAgent {
  std::unique_ptr<ByteChannel> channel;  // right before the agent's first frame
  std::string noise;                     // what came before our own output: the last 64 KiB
  bool uploaded = false;                 // false: the host had this agent already
  const EmbeddedAgent* agent = nullptr;  // of StartAgent: the one that runs there
};

enum class Upload { kIfMissing, kAlways };

// Uploads that of `agents` which is for the host's kind of machine, if the host lacks it (to BASE/bin/SHA256, mode 0500, in a folder of mode 0700), or always, as one that is
// there may be damaged: only its hello tells. Runs it in its role `start`. The time of an upload does not count towards `deadline`; an
// upload fails when 32 KiB take longer than 30 s. Throws Error: kExec (no shell; shows its output),
// kStart (a system that none of them is for, or no usable folder: names each with the reason), kUpload (no space);
// LostConnection; ProtocolError.
BootedAgent StartAgent(std::unique_ptr<ByteChannel> channel, std::span<const EmbeddedAgent> agents,
                       const std::string& remote_dir, Upload upload, TimePoint deadline);

// The host has neither a folder nor a process of the job.
class NothingThere : public Error {
 public:
  using Error::Error;
};

// The host has processes of the job, but not its folder.
class FolderGone : public Error {
 public:
  using Error::Error;
};

// Runs the job's own agent of that slot in its role `attach`. `base` is Hello::base, or a
// `remote_dir`. Throws NothingThere when this host has no such job, FolderGone when it has the
// job's processes but not its folder.
BootedAgent AttachAgent(std::unique_ptr<ByteChannel> channel, const std::string& base,
                        const std::string& job, int slot, TimePoint deadline);

// Where the job's own agent of that slot is, which nobody else can have put there. Throws NothingThere.
std::string FindAgent(std::unique_ptr<ByteChannel> channel, const std::string& base,
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
  // A task has written a file into it, or this is not known.
  bool has_task_files = true;
  bool is_leased =
      false;  // nothing of it runs here; another host that shares the folder may run it
};

struct HostSurvey {
  std::vector<SlotOnHost> slots;  // newest first
  uint64_t caches_kib = 0;        // agents and received files
  // tfdist's folders of which `slots` has all; one that was removed as a whole among them.
  std::vector<std::string> bases;
  std::vector<std::string> refused;  // "FOLDER: why", of those that were not looked into
};
// What to tell the user where there are such.
Error RefusedFolders(const std::vector<std::string>& refused);

// All that tfdist has on this host, but for folders that somebody else may have made.
HostSurvey Survey(std::unique_ptr<ByteChannel> channel, const std::string& remote_dir,
                  TimePoint deadline);

struct Removal {
  std::vector<std::string> removed;  // absolute paths on the host
  std::vector<std::string> kept;     // "PATH: why"
};

// Removes the folders of those `jobs` (ids) that do not run on this host. Removes agents and cached
// files too, unless a job runs on this host, or `caches_stay`: for jobs that stay, or run on another
// host that may share the home folder.
Removal Clean(std::unique_ptr<ByteChannel> channel, const std::string& remote_dir,
              const std::vector<std::string>& jobs, bool caches_stay, TimePoint deadline);

// Removes one slot's folder of a job, unless the job runs there. No folder is no error.
Removal PurgeJob(std::unique_ptr<ByteChannel> channel, const std::string& base,
                 const std::string& job, int slot, TimePoint deadline);

using layout::IsJobIdOf;

}  // namespace tfdist::cli
