#include "agent/tasks/preflight.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "agent/census/process_table.h"
#include "agent/control/control_listener.h"
#include "agent/control/tcp_address.h"
#include "agent/tasks/port_check.h"
#include "base/error.h"
#include "base/file.h"
#include "base/testing/temporary_folder.h"

namespace tfdist::agent {
namespace {

using protocol::HostDescription;
using protocol::TaskDescription;
using testing::HasSubstr;

class PreflightTest : public testing::Test {
 protected:
  void SetUp() override {
    info_.job = "job";
    info_.name = "name";
  }

  static HostDescription WithTask(const TaskDescription& task) {
    HostDescription description;
    description.tasks = {task};
    return description;
  }
  static TaskDescription Task(const std::string& command) {
    TaskDescription task;
    task.task = "worker:0";
    task.argv = {protocol::Text(command)};
    return task;
  }
  void TryPrepare(const HostDescription& description) {
    Prepare(description, FileStore(path_ / "files"), SlotFolder(path_), info_);
  }
  std::string Complaint(const HostDescription& description, Phase phase) {
    try {
      TryPrepare(description);
      ADD_FAILURE() << "no complaint";
      return "";
    } catch (const Error& e) {
      EXPECT_EQ(e.phase(), phase);
      EXPECT_FALSE(e.remedy().empty());
      return e.cause();
    }
  }

  const TemporaryFolder temporary_;
  std::filesystem::path path_ = temporary_.path();
  SlotInfo info_;
};

TEST_F(PreflightTest, FindsACommandInThePathOfTheTasksOwnEnvironment) {
  TryPrepare(WithTask(Task("sh")));
  TaskDescription task = Task("sh");
  task.env = {{"PATH", "/nowhere:/neither"}};
  EXPECT_EQ(Complaint(WithTask(task), Phase::kCommand),
            "command 'sh' of worker:0: not found in PATH=/nowhere:/neither");
}

TEST_F(PreflightTest, LooksForAPathWithSlashInTheWorkFolder) {
  EXPECT_THAT(Complaint(WithTask(Task("./train.sh")), Phase::kCommand),
              HasSubstr("./train.sh: No such file or directory"));
  EXPECT_THAT(Complaint(WithTask(Task("/tmp/")), Phase::kCommand), HasSubstr("not a file"));
  EXPECT_THAT(Complaint(WithTask(Task("/etc/passwd")), Phase::kCommand),
              HasSubstr("not executable"));
}

TEST_F(PreflightTest, NamesThePortAndWhoHasIt) {
  const UniqueFd taken = ListenForAgents("127.0.0.1", 0);
  TaskDescription task = Task("sh");
  task.ports = {LocalPort(taken.get())};
  EXPECT_EQ(Complaint(WithTask(task), Phase::kPorts),
            "port " + std::to_string(task.ports[0]) + " of worker:0 is in use by pid " +
                std::to_string(getpid()) + " (" + ReadProcess(getpid())->comm + ")");
}

TEST_F(PreflightTest, LeavesAFreePortFree) {
  UniqueFd listener = ListenForAgents("127.0.0.1", 0);
  const int port = LocalPort(listener.get());
  listener.Reset();
  CheckPort(port, "worker:0");
  EXPECT_TRUE(ListenForAgents("127.0.0.1", port).valid());
}

TEST_F(PreflightTest, TellsWhatTarSaysOfABrokenArchive) {
  HostDescription description = WithTask(Task("sh"));
  description.workdir.emplace();
  description.workdir->sha256 = std::string(64, 'a');
  MakePrivateFolder(path_ / "files");
  ReplaceFile(path_ / "files" / std::string(64, 'a'), "no archive", 0400);
  try {
    TryPrepare(description);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.phase(), Phase::kFiles);
    EXPECT_THAT(e.cause(), HasSubstr("not in gzip format"));
  }
}

TEST(CheckDescription, RefusesNamesThatLeaveTheFolder) {
  for (const char* name : {"worker", "../x:0", "a/b:0", ".a:0", "worker:0/1", ":0"}) {
    HostDescription description;
    TaskDescription task;
    task.task = name;
    description.tasks = {task};
    EXPECT_THROW(CheckDescription(description), Error) << name;
  }
  for (const char* link : {"", "../x", "key", "agent", "a/b"}) {
    HostDescription description;
    description.files = {{.sha256 = {}, .size_bytes = 0, .executable = false, .link = link}};
    EXPECT_THROW(CheckDescription(description), Error) << link;
  }
}

}  // namespace
}  // namespace tfdist::agent
