#include "agent/start/name_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

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
constexpr int kTries = 20;
constexpr std::chrono::milliseconds kPauseBetweenTries{50};

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

[[noreturn]] void FailTaken(const SlotInfo& info, const std::filesystem::path& path) {
  const auto owner =
      Json::parse(ReadOwnFileIfExists(path, kMaxLockBytes).value_or(""), nullptr, false);
  const bool known = owner.is_object();
  const std::string job = known ? owner.value("job", "") : "";
  const std::string by = known ? owner.value("started_by", "") : "";
  throw protocol::NameTaken(
      Error(Phase::kStart,
            fmt::format("a job named '{}' runs already: {}{}", info.name, known ? job : "unknown",
                        by.empty() ? "" : ", started by " + by),
            "end it with `tfdist down`, or give this one another name"),
      job, known ? owner.value("plan_sha256", "") : "");
}

}  // namespace

UniqueFd TakeNameLock(const SlotInfo& info, const std::filesystem::path& slot_folder) {
  const auto folder = std::filesystem::path(info.base) / layout::kNames;
  MakePrivateFolder(folder);
  const auto path = folder / (info.name + ".lock");
  UniqueFd fd = OpenFile(path, O_RDWR | O_CREAT | O_NOFOLLOW);
  for (int tries = 0; !Lock(fd.get(), path); ++tries) {
    if (tries == kTries) FailTaken(info, path);
    std::this_thread::sleep_for(kPauseBetweenTries);
  }
  WriteOwner(fd.get(), info, slot_folder);
  return fd;
}

}  // namespace tfdist::agent
