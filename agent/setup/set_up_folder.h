// `<base>/setup/<key>-<uname -m>/`: what the set-up command of one content has made on this host.
//
//   lock          held by whoever makes something here; its job, for those that wait
//   <run>/        what one run of the command has made, and where it ran. Environments have their path in them: it stays
//   <run>.made    what that was, to tell it from what tasks have written there since
//   <run>.done    that run has succeeded, "TIME JOB": written last, after all else is on disk
//
// The newest run that is done counts. `up --setup` makes a newer one beside it, and jobs that run keep theirs. What is not done
// is removed by the next run. Jobs that use one touch its mark each hour; two weeks after that it goes, unless tasks have
// written into it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "agent/files/folder_lock.h"
#include "base/clock.h"
#include "base/unique_fd.h"

namespace tfdist::agent {

// Whether `name` is that of such a folder: 16 hexadecimal digits, a dash and the kind of machine.
bool IsSetUpFolder(std::string_view name);

class SetUpFolder {
 public:
  explicit SetUpFolder(std::filesystem::path path) : path_(std::move(path)) {}
  // For this kind of machine. Throws Error(kSetUp) for what is no key: 16 lower-case hexadecimal digits.
  SetUpFolder(const std::filesystem::path& base, const std::string& key);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::filesystem::path Run(const std::string& run) const { return path_ / run; }
  [[nodiscard]] std::filesystem::path Mark(const std::string& run) const;
  [[nodiscard]] std::filesystem::path Made(const std::string& run) const;

  // Makes the folder where there is none. nullopt: another process has the lock. It is freed with the last descriptor.
  [[nodiscard]] std::optional<UniqueFd> TryLock() const;
  // The job whose process holds the lock, for the line that a waiting job prints; empty: not known.
  [[nodiscard]] std::string JobOfLock() const;

  // The newest run that is done; nullopt: none.
  [[nodiscard]] std::optional<std::string> Newest() const;
  // Whose run that was.
  [[nodiscard]] std::string JobOf(const std::string& run) const;
  // With the lock. Syncs all that is there first. Throws Error(kFiles).
  void MarkDone(const std::string& run, const std::string& job) const;
  // With the lock: what runs that did not succeed have left.
  void RemoveUnfinished() const;
  // The first file found in it that a task has written; what cannot be looked at, or not before `deadline`, counts.
  [[nodiscard]] std::optional<std::filesystem::path> FindTaskFile(TimePoint deadline) const;

 private:
  // When that run ended, by the wall clock.
  [[nodiscard]] int64_t EndOf(const std::string& run) const;

  std::filesystem::path path_;
};

// Which of them a job gets where an earlier one has made it: its path, and it counts as used. nullopt: it is yet to be made, or
// just being made. Throws Error.
std::optional<std::string> UseSetUp(const SetUpFolder& folder);

// Removes from `<base>/setup` what nobody has used since `oldest`, and what was left unfinished as long ago. What tasks have
// written there keeps a set-up, which is looked at again when it seems as old once more. One that could not be looked at by
// `deadline` stays too: the log names it, and it is looked at again a day later. What has not begun to be removed by then stays.
void RemoveOldSetUps(const std::filesystem::path& base, std::filesystem::file_time_type oldest,
                     TimePoint deadline);

// All of it: first the marks, so that no job believes a part of it. nullopt: it is gone; else why it stays.
std::optional<WhyItStays> RemoveSetUp(const std::filesystem::path& path);

}  // namespace tfdist::agent
