// Bringing a host to "ready", with the real executable: what is sent, and what can go wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "agent/control/control_listener.h"
#include "agent/control/tcp_address.h"
#include "agent/testing/job_fixture.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/testing/gzip.h"
#include "wire/refusal.h"

namespace tfdist::agent {
namespace {

using protocol::FileDescription;
using protocol::Json;
using testing::HasSubstr;

namespace type = protocol::type;

class DeployTest : public JobTest {
 protected:
  // Sends what the agent says it lacks.
  static void Upload(AgentClient& client, const FileDescription& file, const std::string& content) {
    const Json missing = client.Request(type::kNeed, {{"files", {file}}}).at("missing");
    if (missing.empty()) return;
    const protocol::FilePiece piece{file.sha256, 0, "", true};
    client.Request(type::kFile, piece, Gzip(content));
  }
  static FileDescription FileOf(const std::string& content, bool executable, std::string link) {
    return {Sha256Hex(content), content.size(), executable, std::move(link)};
  }
  // A tar archive, not compressed, of one file `data.txt`.
  std::string Archive(const std::string& content) const {
    std::ofstream(base_ / "data.txt") << content;
    const std::string command =
        "tar -cf " + (base_ / "a.tar").string() + " -C " + base_.string() + " data.txt";
    EXPECT_EQ(std::system(command.c_str()), 0);  // NOLINT: one thread
    return ReadFileIfExists(base_ / "a.tar", 1 << 20).value();
  }
  static protocol::Refusal RefusalOf(const std::function<void()>& work) {
    try {
      work();
    } catch (const protocol::Refusal& e) {
      return e;
    }
    ADD_FAILURE() << "no refusal";
    return {protocol::RefusalKind::kFailed, Phase::kInternal, ""};
  }
};

TEST_F(DeployTest, BringsFilesAndWorkdirAndRunsThem) {
  const std::string program =
      "#!/bin/sh\necho \"runtime with $1\"; cat data.txt; cat $TFDIST_SECRET_FILE\n";
  AgentClient client = CreateSlot(0);
  auto description = Describe(0, {});
  description.files = {FileOf(program, true, "runtime")};
  Upload(client, description.files[0], program);
  // The archive lies on the host as it comes: still compressed.
  const std::string archive = Gzip(Archive("some data\n"));
  description.workdir = {FileOf(archive, false, "")};
  Upload(client, description.workdir[0], archive);
  protocol::TaskDescription task;
  task.task = "worker:0";
  task.argv = {protocol::Text(std::string(protocol::kRuntimePath)), "arguments"};
  description.tasks = {task};
  client.Request(type::kDescribe, description);
  client.Request(type::kPeers, {{"keys", {std::string(40, '0')}}});
  const uint64_t log = client.OpenLog("worker:0", true);
  client.Request(type::kCommit, Plan(1, {{"worker:0", 0, ""}}));
  EXPECT_EQ(client.ReadToEnd(log), "runtime with arguments\nsome data\na secret");
  WaitUntilNothingIsLeft();
}

TEST_F(DeployTest, BringsTheRuntimeForGpusBesideTheOther) {
  const std::string program = "#!/bin/sh\necho \"on a GPU with $1\"\n";
  AgentClient client = CreateSlot(0);
  auto description = Describe(0, {});
  description.files = {FileOf(program, true, "runtime-cuda")};
  Upload(client, description.files[0], program);
  protocol::TaskDescription task;
  task.task = "worker:0";
  task.argv = {protocol::Text(std::string(protocol::kRuntimePath) + "-cuda"), "arguments"};
  description.tasks = {task};
  client.Request(type::kDescribe, description);
  client.Request(type::kPeers, {{"keys", {std::string(40, '0')}}});
  const uint64_t log = client.OpenLog("worker:0", true);
  client.Request(type::kCommit, Plan(1, {{"worker:0", 0, ""}}));
  EXPECT_EQ(client.ReadToEnd(log), "on a GPU with arguments\n");
  WaitUntilNothingIsLeft();
}

TEST_F(DeployTest, NeedsAFileOnceForAllJobs) {
  const std::string content = "content";
  const auto file = FileOf(content, false, "data");
  AgentClient client = CreateSlot(0);
  Upload(client, file, content);
  EXPECT_TRUE(client.Request(type::kNeed, {{"files", {file}}}).at("missing").empty());
  client.Request(type::kAbort);
  WaitUntilNothingIsLeft();
}

TEST_F(DeployTest, SaysWhatKeepsATaskFromRunning) {
  AgentClient client = CreateSlot(0);
  auto description = Describe(0, {{"worker:0", 0, ""}});
  const UniqueFd taken = ListenForAgents("127.0.0.1", 0);
  description.tasks[0].ports = {LocalPort(taken.get())};
  const auto port = RefusalOf([&] { client.Request(type::kDescribe, description); });
  EXPECT_EQ(port.kind(), protocol::RefusalKind::kPortTaken);
  EXPECT_THAT(port.cause(), HasSubstr("of worker:0 is in use by pid"));
  description.tasks[0].ports.clear();
  description.tasks[0].argv = {"no-such-command"};
  const auto command = RefusalOf([&] { client.Request(type::kDescribe, description); });
  EXPECT_EQ(command.phase(), Phase::kCommand);
  EXPECT_THAT(command.cause(),
              HasSubstr("command 'no-such-command' of worker:0: not found in PATH="));
  client.Request(type::kAbort);
  WaitUntilNothingIsLeft();
}

TEST_F(DeployTest, SaysWhyTheCoordinatorCannotBeReached) {
  AgentClient client = CreateSlot(1);
  UniqueFd listener = ListenForAgents("127.0.0.1", 0);
  const int port = LocalPort(listener.get());
  listener.Reset();
  const Json dial = {{"address", "127.0.0.1"}, {"port", port}, {"key", std::string(40, '0')}};
  const auto refused = RefusalOf([&] { client.Request(type::kDial, dial); });
  EXPECT_EQ(refused.phase(), Phase::kControl);
  EXPECT_EQ(refused.cause(), "cannot reach the coordinator at 127.0.0.1:" + std::to_string(port) +
                                 " (Connection refused)");
  EXPECT_THAT(refused.remedy(), HasSubstr("firewall"));
  client.Request(type::kAbort);
  WaitUntilNothingIsLeft();
}

TEST_F(DeployTest, SaysWhyASlotCannotBeMade) {
  const UniqueFd taken = ListenForAgents("127.0.0.1", 0);
  auto create = MakeCreate(0);
  create.port = LocalPort(taken.get());
  const auto attempt = [&] {
    AgentClient client(executable_, "start");
    client.WaitForHello(protocol::Serving::kStart);
    client.Send(type::kCreate, create);
    client.WaitForHello(protocol::Serving::kAgent);
  };
  const auto port = RefusalOf(attempt);
  EXPECT_EQ(port.phase(), Phase::kStart);
  EXPECT_THAT(port.cause(), HasSubstr("is in use by pid"));
  create.port = 0;
  create.address = "192.0.2.1";  // RFC 5737: nobody's
  EXPECT_THAT(RefusalOf(attempt).cause(), HasSubstr("cannot listen on 192.0.2.1"));
  create.job = "../escape";
  EXPECT_THAT(RefusalOf(attempt).cause(), HasSubstr("malformed"));
  EXPECT_FALSE(std::filesystem::exists(base_ / "jobs" / job_));
}

TEST_F(DeployTest, KeepsSecretsToItsAccount) {
  AgentClient client = CreateSlot(0);
  client.Request(type::kDescribe, Describe(0, {{"worker:0", 0, "true"}}));
  for (const auto& entry : std::filesystem::recursive_directory_iterator(SlotFolder(0))) {
    const auto mode = entry.symlink_status().permissions();
    EXPECT_EQ(mode & (std::filesystem::perms::group_all | std::filesystem::perms::others_all),
              std::filesystem::perms::none)
        << entry.path();
  }
  client.Request(type::kAbort);
  WaitUntilNothingIsLeft();
}

}  // namespace
}  // namespace tfdist::agent
