// What makes tfdist-agent-failpoints of tfdist-agent: a file `kill` or `fail` in the folder that the environment names, as
// FOLDER/journal written/kill, arms the place of that name. The first process that passes it takes the file away, and is killed, or
// the step fails.
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/error.h"
#include "base/failpoint.h"

namespace tfdist {
namespace {

const std::string& FailPointFolder() {
  // Read before main(), by one thread.
  static const std::string folder = [] {
    const char* named = getenv("TFDIST_TEST_FAILPOINTS");
    return std::string(named != nullptr ? named : "");
  }();
  return folder;
}

void PassFailPoint(std::string_view name) {
  const std::filesystem::path place = std::filesystem::path(FailPointFolder()) / name;
  if (unlink((place / "kill").c_str()) == 0) {
    kill(getpid(), SIGKILL);
    pause();
  }
  if (unlink((place / "fail").c_str()) == 0) {
    throw Error(Phase::kFiles, "a failpoint: " + std::string(name));
  }
}

[[maybe_unused]] const bool kArmed = [] {
  if (!FailPointFolder().empty()) SetFailPointHandler(PassFailPoint);
  return true;
}();

}  // namespace
}  // namespace tfdist
