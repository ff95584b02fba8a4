// `<base>/jobs/<job id>/h<slot>/`: what one slot of one job has on its host, and where in it things
// lie. One slot there has `<base>/jobs/<job id>/run/` as well, the level above its work folder: a mark in
// it names the slot, and the level comes and goes with it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "agent/slot/this_machine.h"
#include "base/unique_fd.h"
#include "job/layout.h"
#include "wire/protocol.h"

namespace tfdist::agent {

// What the role `start` was told, and found: never changes afterwards.
struct SlotInfo {
  std::string base;  // absolute path of tfdist's folder on this host
  std::string job;
  std::string name;
  std::string plan_sha256;
  std::string started_by;  // "alice@laptop"; an earlier version did not say
  int slot = 0;
  std::string address;  // slot 0: where the coordinator listens
  int port = 0;
  int64_t uncommitted_limit_ms = 60'000;
  int64_t orphan_timeout_ms = 300'000;
  std::string agent_sha256;  // of the executable that the slot was made from
  Machine machine;           // that made it; an earlier version did not say
  std::string damage;  // not empty: why slot.json could not be read; the rest is what is known
};

// "worker:2" -> "worker-2": under `<slot folder>/tasks/`.
std::string TaskFolderName(std::string_view task);

// In a slot's folder: the level while it is being made.
inline constexpr std::string_view kLevelAside = "run.new";

class SlotFolder {
 public:
  explicit SlotFolder(std::filesystem::path path) : path_(std::move(path)) {}

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::filesystem::path executable() const { return path_ / layout::kAgent; }
  [[nodiscard]] std::filesystem::path info() const { return path_ / layout::kSlotInfo; }
  [[nodiscard]] std::filesystem::path log() const { return path_ / "agent.log"; }
  [[nodiscard]] std::filesystem::path socket() const { return path_ / "sock"; }
  [[nodiscard]] std::filesystem::path key() const { return path_ / "key"; }
  [[nodiscard]] std::filesystem::path secret() const { return path_ / "secret"; }
  [[nodiscard]] std::filesystem::path description() const { return path_ / "description"; }
  // `run` of the job, whichever slot has it.
  [[nodiscard]] std::filesystem::path level() const { return path_.parent_path() / layout::kLevel; }
  // Whether this slot has it. What another account has made does not count. Reads files.
  [[nodiscard]] bool HasLevel() const;
  // Where its tasks start: in the level of the slot that has it, else in its own folder. Reads files.
  [[nodiscard]] std::filesystem::path work() const {
    return (HasLevel() ? level() : path_) / layout::kWork;
  }
  [[nodiscard]] std::filesystem::path runtime() const { return path_ / "runtime"; }
  [[nodiscard]] std::filesystem::path tasks() const { return path_ / "tasks"; }
  [[nodiscard]] std::filesystem::path TaskFolder(std::string_view task) const;
  // Slot 0: the coordinator's journal and the public keys that it lets in.
  [[nodiscard]] std::filesystem::path journal() const { return path_ / "events.jsonl"; }
  // Room on the disk for the job's last events.
  [[nodiscard]] std::filesystem::path reserve() const { return path_ / "events.reserve"; }
  [[nodiscard]] std::filesystem::path peers() const { return path_ / "peers.json"; }
  // Other slots: where the coordinator is; and, once that is so, that the job is committed.
  [[nodiscard]] std::filesystem::path coordinator() const { return path_ / "coordinator.json"; }
  [[nodiscard]] std::filesystem::path committed() const { return path_ / "committed"; }
  // Why the agent ended its tasks by itself: for whoever asks later.
  [[nodiscard]] std::filesystem::path orphaned() const { return path_ / "orphaned"; }
  // The container engines of its tasks, where they have any.
  [[nodiscard]] std::filesystem::path engines() const { return path_ / "engines"; }
  // These have told that no container of the slot is left; until its next task starts.
  [[nodiscard]] std::filesystem::path engines_told() const { return path_ / "engines.told"; }
  // Processes that could not be ended.
  [[nodiscard]] std::filesystem::path left() const { return path_ / "left"; }

 private:
  std::filesystem::path path_;
};

// Whether `path` is a slot's folder that tfdist has made: `h<slot>`, of this account, with the
// slot's info or its agent in it.
bool IsSlotFolder(const std::filesystem::path& path);

// "digits" of "digits-20260801T120000Z-a1b2c3": what stands before the last two dashes.
std::string NameOfJob(const std::string& job);

// Which users' jobs have used `kept`, a {keep} (kept_folder.h): goes with that folder.
std::filesystem::path UsersOfKept(const std::filesystem::path& kept);

// Removes it with all that is in it; what is left, and why. nullopt: nothing. Where something is mounted in it, all stays as it is
// (mounts.h).
std::optional<std::string> RemoveTree(const std::filesystem::path& folder);

// Makes the folder in which tasks start, empty; it does not exist. `takes_level`: in the job's level, unless another slot has that, perhaps one
// of another machine that shares the job's folder. Throws Error(kFiles).
void MakeWorkFolder(const SlotFolder& folder, bool takes_level);

// Removes what is in the folder in which tasks start, or that as well; what is left, and why, as RemoveTree.
std::optional<std::string> EmptyWorkFolder(const SlotFolder& folder);
std::optional<std::string> RemoveWorkFolder(const SlotFolder& folder);

// Whether the job of `folder` has a level and none of its slots here has that: somebody has removed its mark, or its slot.
bool LevelIsNobodys(const SlotFolder& folder);

// Removes the level of a job that has no slot here.
std::optional<std::string> RemoveLevelOfNoSlot(const std::filesystem::path& job);

// As RemoveTree, with the level that it has, and the job's folder with its last slot; what cannot be removed stays: says what, and why. nullopt: all is gone. What
// IsSlotFolder goes by is removed last: a folder of which something is left is one still.
std::optional<std::string> RemoveSlotFolder(const SlotFolder& folder);

void WriteSlotInfo(const SlotFolder& folder, const SlotInfo& info);
// Throws Error(kFiles) when it is missing or malformed.
SlotInfo ReadSlotInfo(const SlotFolder& folder);
// Goes on without slot.json: base, job, name and slot follow from the folder's path, limits are the
// usual ones, address and port stay open. Throws Error(kFiles) when the path is not
// `<base>/jobs/<job>/h<slot>` either.
SlotInfo ReadOrInferSlotInfo(const SlotFolder& folder);

// Whether `task` may be used as "type:index" in file names.
bool IsTaskName(std::string_view task);

// The path of a unix socket in `folder` that is short enough for sun_path (107 bytes), however long
// the folder's own path is: it leads through the folder's descriptor, which must stay open.
std::string ShortSocketPath(const UniqueFd& folder);

}  // namespace tfdist::agent
