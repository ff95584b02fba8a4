#include "cli/commands/folder_claim.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "cli/show/slow_notice.h"

namespace tfdist::cli {
namespace {

using namespace std::chrono_literals;

constexpr auto kLimit = 10min;
constexpr auto kLookAgain = 50ms;

}  // namespace

FolderClaim::FolderClaim(const std::filesystem::path& folder)
    : fd_(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (!fd_.valid()) return;  // what follows fails with its reason
  const TimePoint limit = SystemClock().Now() + kLimit;
  const SlowNotice notice(
      fmt::format("waiting for another tfdist that brings files into {}", folder.string()));
  while (flock(fd_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    if (SystemClock().Now() >= limit) {
      throw Error(Phase::kFiles,
                  fmt::format("another tfdist brings files into {}, for 10 minutes already",
                              folder.string()),
                  "wait for its end, or name another folder");
    }
    std::this_thread::sleep_for(kLookAgain);
  }
}

}  // namespace tfdist::cli
