#include "agent/start/name_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <string>
#include <thread>

#include "agent/start/rival.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "job/layout.h"
#include "wire/protocol.h"

namespace tfdist::agent {
namespace {

using protocol::Json;

constexpr size_t kMaxLockBytes = 16 * 1024;
// A job that has ended lets go of the lock a moment after its result is known (Agent::OnNews), at
// the latest with its keeper's last breath; one that takes the lock needs a moment to write its
// name.
constexpr std::chrono::seconds kOwnersMoment{1};
constexpr std::chrono::milliseconds kPauseBetweenTries{50};

// Of the lock, as WriteOwner writes it.
struct Owner {
  std::string job;
  std::string plan_sha256;
  std::string started_by;
  std::string folder;
};

Owner ReadOwner(const std::filesystem::path& path) {
  const auto json =
      Json::parse(ReadOwnFileIfExists(path, kMaxLockBytes).value_or(""), nullptr, false);
  Owner owner;
  if (!json.is_object()) return owner;
  owner.job = json.value("job", "");
  owner.plan_sha256 = json.value("plan_sha256", "");
  owner.started_by = json.value("started_by", "");
  owner.folder = json.value("folder", "");
  return owner;
}

bool Lock(int fd, const std::filesystem::path& path) {
  if (flock(fd, LOCK_EX | LOCK_NB) == 0) return true;
  if (errno == EWOULDBLOCK || errno == EINTR) return false;
  throw Error(Phase::kStart, WithErrno("cannot lock " + path.string(), errno));
}

void WriteOwner(int fd, const SlotInfo& info, const std::filesystem::path& slot_folder) {
  const Json owner = {{"job", info.job},
                      {"plan_sha256", info.plan_sha256},
                      {"started_by", info.started_by},
                      {"folder", slot_folder.string()}};
  if (ftruncate(fd, 0) != 0) throw Error(Phase::kStart, WithErrno("cannot write the lock", errno));
  WriteAll(fd, owner.dump() + "\n", "the lock on the job's name");
}

[[noreturn]] void FailTaken(const SlotInfo& info, const Owner& owner, bool is_committed) {
  throw protocol::NameTaken(
      Error(Phase::kStart,
            fmt::format("a job named '{}' {}: {}{}", info.name,
                        is_committed ? "runs already" : "is being started",
                        owner.job.empty() ? "unknown" : owner.job,
                        owner.started_by.empty() ? "" : ", started by " + owner.started_by),
            "end it with `tfdist down`, or give this one another name"),
      owner.job, owner.plan_sha256, is_committed);
}

// After kOwnersMoment.
void WaitOrFail(const SlotInfo& info, const std::filesystem::path& path, bool is_over) {
  const Owner owner = ReadOwner(path);
  const SlotFolder folder(owner.folder);
  const bool is_committed = IsCommitted(folder, AskContact(folder));
  // Any program of the account can have written the name there.
  const bool is_rival = layout::IsJobIdOf(owner.job, info.name) && WaitsFor(info.job, owner.job);
  if (is_over || is_committed || !is_rival) {
    FailTaken(info, owner, is_committed);
  }
}

}  // namespace

UniqueFd TakeNameLock(const SlotInfo& info, const std::filesystem::path& slot_folder) {
  const auto folder = std::filesystem::path(info.base) / layout::kNames;
  MakePrivateFolder(folder);
  const auto path = folder / (info.name + ".lock");
  UniqueFd fd = OpenFile(path, O_RDWR | O_CREAT | O_NOFOLLOW);
  const TimePoint begin = SystemClock().Now();
  while (!Lock(fd.get(), path)) {
    const auto waited = SystemClock().Now() - begin;
    if (waited > kOwnersMoment) WaitOrFail(info, path, waited > kRivalLimit);
    std::this_thread::sleep_for(kPauseBetweenTries);
  }
  WriteOwner(fd.get(), info, slot_folder);
  return fd;
}

}  // namespace tfdist::agent
