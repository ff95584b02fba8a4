// Real processes below one that is called as podman's conmon, and has a container's id among its arguments.
#include "agent/container/container_processes.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "agent/keeper/testing/slot_fixture.h"
#include "agent/testing/child.h"
#include "base/testing/temporary_folder.h"

namespace tfdist::agent {
namespace {

constexpr const char* kId = "4f0c4f0c4f0c4f0c4f0c4f0c4f0c4f0c4f0c4f0c4f0c4f0c4f0c4f0c4f0c4f0c";

class ContainerProcesses : public testing::Test {
 protected:
  void TearDown() override {
    for (const ProcessInfo& one : Descendants(conmon_->pid(), ReadProcessTable()))
      kill(one.id.pid, SIGKILL);
  }
  // What the one that stands in for conmon runs.
  void Start(const char* script) {
    const std::string conmon = folder_.path() / "conmon";
    std::filesystem::create_symlink("/bin/sh", conmon);
    conmon_.emplace(std::vector<const char*>{conmon.c_str(), "-c", script, kId},
                    std::vector<const char*>{"PATH=/usr/bin:/bin"});
  }
  // The process called `comm` below it.
  ProcessInfo Find(const std::string& comm) {
    std::optional<ProcessInfo> found;
    const auto look = [&] {
      const auto below = Descendants(conmon_->pid(), ReadProcessTable());
      const auto one = std::ranges::find(below, comm, &ProcessInfo::comm);
      if (one != below.end()) found = *one;
      return found.has_value();
    };
    EXPECT_TRUE(WaitFor(look, std::chrono::seconds(20), comm.c_str()));
    return found.value_or(ProcessInfo{});
  }
  // As if this process ran in that container.
  std::vector<ProcessInfo> TableFromInside() {
    std::vector<ProcessInfo> table = ReadProcessTable();
    std::ranges::find(table, getpid(), [](const ProcessInfo& one) { return one.id.pid; })->parent =
        conmon_->pid();
    return table;
  }

  TemporaryFolder folder_;
  std::optional<Child> conmon_;
};

// As in distrobox and toolbox: `up` runs in the container, which shares the host's pids.
TEST_F(ContainerProcesses, OneThatSharesOurPidsIsInNoOtherContainer) {
  Start("sleep 1000 & wait");
  EXPECT_FALSE(IsInOtherContainer(Find("sleep"), {}, ReadProcessTable()));
}

TEST_F(ContainerProcesses, OneWithItsOwnPidsBelowConmonIsInAnotherContainer) {
  Start("unshare --user --map-root-user --pid --fork sleep 1000 & wait");
  const ProcessInfo inside = Find("sleep");
  EXPECT_TRUE(IsInOtherContainer(inside, {}, ReadProcessTable()));
  EXPECT_FALSE(IsInOtherContainer(inside, {kId}, ReadProcessTable()));
}

// A task of a distrobox may run a program in further namespaces (bwrap, unshare).
TEST_F(ContainerProcesses, OneBelowOurOwnConmonIsInNoOtherContainer) {
  Start("unshare --user --map-root-user --pid --fork sleep 1000 & wait");
  EXPECT_FALSE(IsInOtherContainer(Find("sleep"), {}, TableFromInside()));
}

}  // namespace
}  // namespace tfdist::agent
