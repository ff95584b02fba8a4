// What this machine remembers of a job: $XDG_STATE_HOME/tfdist/jobs/<id>.json, one file a job,
// 0600. Written before any host is touched; it says how to reach the hosts, and what was last
// learned of how the job fares. It holds no value of the user's environment.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "cli/plan/plan.h"
#include "cli/render/settings.h"

namespace tfdist::cli {

// What a command has last learned of a job. The job's own event log is what counts.
struct LastSeen {
  enum class Stage {
    kStarting,   // not known to have begun: `up` is at it, was killed, or got no answer
    kRunning,    // had begun, and had not ended
    kUnwatched,  // so too, but no agent of it answers on its first host
    kEnded,
    kNotStarted,  // a host could not be brought up, or `down` came first
  };
  Stage stage = Stage::kStarting;
  std::string result;    // kEnded: succeeded | failed | stopped | gone (no folder is left)
  std::string why;       // what there is to say of it; mostly of a failure
  int64_t began_ns = 0;  // wall clock; 0: not known
  int64_t ended_ns = 0;
  int64_t ahead_ns = 0;  // how far the clock of these times is ahead of this machine's
  bool may_have_begun =
      true;  // its `up` has asked the first host to begin it, or that is not known
  [[nodiscard]] bool may_run() const {
    return stage == Stage::kStarting || stage == Stage::kRunning;
  }
  // Nothing else is to be learned.
  [[nodiscard]] bool is_over() const {
    return stage == Stage::kEnded || stage == Stage::kNotStarted;
  }
  // By this machine's clock; 0: not known.
  [[nodiscard]] int64_t ended_here_ns() const { return ended_ns == 0 ? 0 : ended_ns - ahead_ns; }
  bool operator==(const LastSeen&) const = default;
};
// "starting", "running", "unwatched", "not started", or the result.
std::string_view StateName(const LastSeen& seen);
// "failed: worker:1 on h2: exit code 1".
std::string StateWithWhy(const LastSeen& seen);

// What a job was started from, and by what. Empty: not known.
struct JobOrigin {
  std::string workdir;       // absolute
  std::string workdir_hash;  // of all that was sent of it
  std::string git_commit;    // of the repository that the workdir is in
  bool git_changed = false;  // files of the workdir differ from that commit, or are unknown to it
  std::string version;       // of tfdist
};

struct JobRecord {
  std::string id;
  std::string name;
  std::string plan_sha256;
  std::filesystem::path file;   // the cluster file, as it was then
  std::string created;          // 2026-08-01T12:00:00.123Z
  std::string started_by;       // "alice@laptop", for people; empty: not known
  std::vector<HostPlan> hosts;  // index = slot
  // tfdist's folder on each host; empty: not learned yet, or `clean` has removed what lay there of the job.
  std::vector<std::string> bases;
  std::vector<std::string>
      base_ids;  // which folder of all at that path (KnownBase); empty: not known
  SshOptions ssh;
  std::string shared;                // as in Plan
  std::string logdir;                // the same
  int64_t silent_after_ms = 60'000;  // the same
  bool keeps = false;                // a task has {keep}
  bool elsewhere = false;            // started on another machine: nobody means it who names no job
  struct Task {
    std::string id;  // "worker:0"
    int slot = 0;
    Settings settings;         // empty in records of earlier versions
    std::string command = {};  // empty there, too; paths of hosts as the file writes them: {keep}
    std::string folder = {};   // render.h: FolderOfHost; empty there, too
  };
  std::vector<Task> tasks;
  Settings settings;                 // of the whole job
  std::vector<std::string> clients;  // plan/container_clients.h
  std::string told_to_end;  // by which command, where not all of its hosts have confirmed the end
  std::map<std::string, std::string> files;  // of the workdir: path -> short hash (workdir_files.h)
  JobOrigin origin;
  std::map<std::string, std::string> labels;  // the user's own notes
  LastSeen last_seen;
};

// As a shell line; paths that only the host knows are called what a cluster file calls them.
std::string CommandAsWritten(const Plan& plan, const TaskOnHost& task);

// Who started it: "alice@laptop", where that was somebody else, or the same user elsewhere; empty: not so, or not known.
std::string StrangerWhoStarted(const JobRecord& record);

// The folders of hosts in which tasks start, which are no part of the job's own folder: "/data/run, ~/run"; empty: none.
std::string FoldersOfHosts(const JobRecord& record);

// tfdist's folder on the host of that slot; where that was never learned, the one that the host was told.
const std::string& BaseOf(const JobRecord& record, int slot);

// `why` of a job whose `up` is gone, and which has not begun.
inline constexpr std::string_view kUpWasKilled = "its `up` was killed while it brought hosts up";
inline constexpr std::string_view kUpHasEnded = "its `up` ended before it had started it";

// Held by `up` while it brings a job's hosts up. The system frees it, however the process ends.
class BringUpMark {
 public:
  // Throws Error(kFiles).
  explicit BringUpMark(std::string_view id);
  BringUpMark(const BringUpMark&) = delete;
  BringUpMark& operator=(const BringUpMark&) = delete;
  ~BringUpMark();

  // Shows other machines that this `up` lives, whose locks they may not see: to be called every few minutes at least.
  void KeepFresh() const;
  // Somebody wants the job ended before it begins (StopBringUp).
  [[nodiscard]] bool IsAskedToStop() const;

 private:
  std::filesystem::path path_;
  UniqueFd file_;
  std::string owner_;  // what the file holds until somebody asks
};
// Asks the `up` that brings the job up to roll back, and waits until it is through: the job has begun then, or nobody
// brings it up any more. Else, at `deadline`, returns which process that is: "pid 17 on gpu07".
std::optional<std::string> StopBringUp(std::string_view id, TimePoint deadline);
// The `up` that brings the job up: "pid 17 on gpu07". nullopt: the job has begun, or no `up` is at it.
std::optional<std::string> WhoBringsUp(const JobRecord& record);
// The record says that the job is brought up, and no `up` is at it.
bool IsLeftByItsUp(const JobRecord& record);

// Its `up` is gone, and has asked no host to begin it: it will never run, and no task has written anything.
bool HasNeverBegun(const JobRecord& record);

// Those of `records` that may run, without those that are left by their `up`. A host lets in one job of a name at a time: one that is still brought up
// beside a running one of its name on its first host will be refused, and is left out.
std::vector<const JobRecord*> ThatMayRun(const std::vector<JobRecord>& records);

// The record of a job about to be started from `plan`.
JobRecord MakeRecord(const Plan& plan, std::string id, std::string plan_sha256);
// `created` on the wall clock; 0 when it is malformed.
int64_t CreatedNanoseconds(const JobRecord& record);
// "<name>-20260801T120000Z-1a2b3c": 1a2 are milliseconds, so ids of one name are in the order of
// their times; the rest is by chance.
std::string NewJobId(std::string_view name);
bool IsJobId(std::string_view text);

// Whether both are one folder of one account on one machine, as far as what the user wrote tells.
bool IsSamePlace(const HostPlan& host, const SshOptions& ssh, const HostPlan& other,
                 const SshOptions& other_ssh);
// The same of the first hosts, which tell jobs of one name apart.
bool HasFirstHostOf(const JobRecord& record, const Plan& plan);
// Whether the plan's file is not the one that started the job, nor one beside it for the same workdir. False also where that is
// not known, as of a job that another machine has started.
bool IsOfAnotherProject(const JobRecord& record, const Plan& plan);
// The file that started the job; without one the workdir. Empty: not known.
std::string ProjectOf(const JobRecord& record);
bool HasHost(const JobRecord& record, const HostPlan& host, const SshOptions& ssh);

// What a record's file holds, and back. Throws Error(kFiles) for text that is no record, or whose
// parts do not fit each other.
std::string EncodeRecord(const JobRecord& record);
JobRecord DecodeRecord(std::string_view text);
// Throws Error(kFiles), before anything was started, when the record cannot be kept.
void SaveRecord(const JobRecord& record);
// Of a job that was saved before: where the disk is full, one line of stderr says so, and the command goes on.
void TrySaveRecord(const JobRecord& record);
void RemoveRecord(std::string_view id);
bool IsKnownHere(std::string_view id);
// Notes it in the job's record by TrySaveRecord, where this machine has one that has the same first host; an end that is
// noted stays, and "starting" without a reason says nothing.
void NoteLastSeen(const JobRecord& record, const LastSeen& seen);
// JobRecord::told_to_end, of a job that was saved before; and what its record says of that now.
void NoteToldToEnd(const JobRecord& record, const std::string& why);
std::string WhyToldToEnd(const JobRecord& record);
// Newest first. A file that cannot be read as a record is passed over, with a line on stderr. Throws Error(kFiles) where the
// folder cannot be read.
std::vector<JobRecord> LoadRecords();
// How many of them were passed over. Throws Error(kFiles).
size_t CountUnreadableRecords();

// What `seat` lacks, which has taken over the tasks of `slot`; empty: the job keeps nothing.
std::string WhatANewHostLacks(const JobRecord& record, int slot, int seat);
inline constexpr std::string_view kKeepInSharedFolder =
    "keep checkpoints in a folder that all hosts share";

}  // namespace tfdist::cli
