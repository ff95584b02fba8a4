// tfdist-agent: one executable, its role is its first argument.
#include <csignal>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "agent/agent/agent_main.h"
#include "agent/attach/attach_main.h"
#include "agent/holder/holder.h"
#include "agent/holder/in_task_main.h"
#include "agent/keeper/keeper.h"
#include "agent/setup/set_up_main.h"
#include "agent/slot/task_files_main.h"
#include "agent/start/start_main.h"
#include "agent/tasks/container_trial_main.h"
#include "base/log.h"
#include "base/uncaught.h"
#include "library_versions.h"
#include "wire/protocol.h"

namespace {

using namespace tfdist::agent;

// With --verbose, the libraries that are linked in: whether a host's agent has a fix.
int PrintVersion(const std::vector<std::string>& arguments) {
  std::printf("tfdist-agent " TFDIST_VERSION ", protocol %d to %d\n",
              tfdist::protocol::kOldestVersion, tfdist::protocol::kVersion);
  if (arguments == std::vector<std::string>{"--verbose"}) std::puts(kLibraryVersions);
  return 0;
}

int Run(std::string_view role, const std::vector<std::string>& arguments) {
  if (role == "start") return StartMain();
  if (role == "house") return HouseMain(arguments);
  if (role == "attach") return AttachMain();
  if (role == "displaced") return DisplacedMain();
  if (role == "keeper") return KeeperMain(arguments);
  if (role == "holder") return HolderMain(arguments);
  if (role == "agent") return AgentMain(arguments);
  if (role == "task-files") return TaskFilesMain(arguments);
  if (role == "in-task") return InTaskMain(arguments);
  if (role == "container-trial") return ContainerTrialMain(arguments);
  if (role == "set-up") return SetUpMain(arguments);
  if (role == "version") return PrintVersion(arguments);
  std::fputs(
      "tfdist-agent is started by tfdist; by hand there is only: tfdist-agent version "
      "[--verbose]\n",
      stderr);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  // An account's shell may leave SIGCHLD ignored: no task that we start could be waited for.
  (void)std::signal(SIGCHLD, SIG_DFL);
  try {
    return Run(argc > 1 ? argv[1] : "",
               std::vector<std::string>(argv + (argc > 2 ? 2 : argc), argv + argc));
  } catch (...) {
    const tfdist::Error error = tfdist::CurrentError();
    tfdist::LogLine(error.what());
    return error.phase() == tfdist::Phase::kInternal ? tfdist::kExitInternal : 1;
  }
}
