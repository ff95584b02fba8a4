// Starts an agent through a shell on a host.
//
// Each function takes a fresh channel of Transport::OpenShell. It skips what the login shell prints
// first (banner, rc files, locale warnings). Errors carry no host.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/failures.h"
#include "cli/channel/byte_channel.h"
#include "cli/link/embedded_agent.h"

namespace tfdist::cli {

class BootConversation;

// Where tfdist's folder ("base") is on a host: `remote_dir`/tfdist if `remote_dir` is not empty,
// else the first usable one of $HOME/.cache/tfdist, $XDG_CACHE_HOME/tfdist and $HOME/.tfdist.
// Usable: this account owns it, programs can be executed in it, and each parent folder belongs to
// this account or root and is not writable for others (unless it is sticky). Modes of existing
// folders are never changed. `remote_dir` may begin with "~/"; a relative path counts from the home
// folder. Throws UsageError for characters other than letters, digits and " ._/~@%+=:,-".
void CheckRemoteDir(std::string_view remote_dir);

// tfdist's folders on a host.
struct HostFolders {
  std::vector<std::string> bases;    // without symbolic links, and nobody else can replace them
  std::vector<std::string> lacking;  // the same, where a slot is asked for that is not in them
  std::vector<std::string> gone;     // removed as a whole, and not just out of sight
  std::vector<std::string> refused;  // "FOLDER: why", of those that somebody else may have made
  std::map<std::string, std::string> ids;  // of those that are there; empty: none
};

// tfdist's folder on a host, as a job's record knows it.
struct KnownBase {
  std::string path;     // Hello::base; empty: not known
  std::string id = {};  // which folder of all at that path: random; empty: not known
};

// Whether what `folders` do not have of a job is gone. Else it may be there again once its file system is mounted.
bool IsInSight(const HostFolders& folders, const KnownBase& known);

struct BootedAgent {
  std::unique_ptr<ByteChannel> channel;  // right before the agent's first frame
  std::string noise;                     // what came before our own output: the last 64 KiB
  bool uploaded = false;                 // false: the host had this agent already
  const EmbeddedAgent* agent = nullptr;  // of StartAgent, StartHouse: the one that runs there
  std::string pid;                       // of these, its process there: digits
  std::string base_id;                   // of these, of the folder that it is in (KnownBase)
  std::string displaced;  // of AttachAgent: processes of a slot that Displaced has found
  HostFolders folders;    // of StartHouse; without `bases` there is no channel
};

enum class Upload { kIfMissing, kAlways };

// Uploads that of `agents` which is for the host's kind of machine, if the host lacks it (to BASE/bin/SHA256, mode 0500, in a folder of mode 0700), or always, as one that is
// there may be damaged: only its hello tells. Runs it in its role `start`. The time of an upload does not count towards `deadline`; an
// upload fails when 32 KiB take longer than 30 s. Throws Error: kExec (no shell; shows its output),
// kStart (a system that none of them is for, or no usable folder: names each with the reason), kUpload (no space);
// LostConnection; ProtocolError.
BootedAgent StartAgent(std::unique_ptr<ByteChannel> channel, std::span<const EmbeddedAgent> agents,
                       const std::string& remote_dir, Upload upload, TimePoint deadline);

// Which folders a request is about, and where an agent goes that has to be brought for it.
struct FoldersAsked {
  std::string remote_dir;
  // Of one slot of a job: remote_dir may be tfdist's folder itself (Hello::base), and only a folder that has the slot counts. Empty:
  // all folders.
  std::string job = {};
  int slot = 0;
  KnownBase known = {};  // of a slot
  // Into a folder for this request, in memory if possible: none of tfdist's has room for it, or runs programs. Its role removes it.
  bool aside = false;
};

// As StartAgent, in the role `house`, beside the first of the folders. Where there is none no agent is brought, and none runs.
BootedAgent StartHouse(std::unique_ptr<ByteChannel> channel, std::span<const EmbeddedAgent> agents,
                       const FoldersAsked& asked, Upload upload, TimePoint deadline);

// The host has neither a folder nor a process of the job.
class NothingThere : public Error {
 public:
  using Error::Error;
};

// Whether the host has a folder of the job is not known: what that would be in cannot be seen.
class OutOfSight : public Unreachable {
 public:
  OutOfSight(Phase phase, const std::string& path, std::string remedy = "", bool is_gone = false);
  // As far as one can see that folder was removed: of files nobody can be sure, and no process of the job is there.
  [[nodiscard]] bool is_gone() const { return is_gone_; }

 private:
  bool is_gone_;
};

// The host has processes of the job, and its folder is not where it was.
class FolderGone : public Error {
 public:
  using Error::Error;
};

// Of a job whose folder is not where it was, in the words of FolderGone. `remedy`: what ends it.
FolderGone JobRunsElsewhere(Phase phase, const std::string& job, const std::string& pids,
                            const std::string& remedy);

// A slot that runs, and whose folder is not where it was: FolderGone; or its processes are reached through themselves.
enum class Displaced { kIsAnError, kIsReached };

// Runs the job's own agent of that slot in its role `attach`, or `displaced`. `base` is Hello::base, or a
// `remote_dir`. Throws NothingThere when this host has no such job, OutOfSight, FolderGone when it has the
// job's processes but not its folder.
BootedAgent AttachAgent(std::unique_ptr<ByteChannel> channel, const std::string& base,
                        const std::string& job, int slot, TimePoint deadline,
                        const KnownBase& known = {}, Displaced displaced = Displaced::kIsAnError);

// Where the job's own agent of that slot is, which nobody else can have put there. Throws NothingThere, OutOfSight.
std::string FindAgent(std::unique_ptr<ByteChannel> channel, const std::string& base,
                      const std::string& job, int slot, TimePoint deadline,
                      const KnownBase& known = {});

// What another account may have put there is neither run nor listed: what to tell the user where there is such a folder.
Error RefusedFolders(Phase phase, const std::vector<std::string>& refused);

// Throws where it is not so that `folders`, as the host tells them before `line`, lack the job: FolderGone, RefusedFolders, OutOfSight.
void ThrowIfOutOfSight(Phase phase, const std::string& line, const HostFolders& folders,
                       const std::string& job, const KnownBase& known);

// Which of tfdist's folders the host has; the first line that tells of something else.
std::string FollowFolders(BootConversation& talk, TimePoint deadline, HostFolders& folders);

// Throws UsageError where `id` is none of a job: ids become folder names on hosts.
void CheckId(std::string_view id);

}  // namespace tfdist::cli
