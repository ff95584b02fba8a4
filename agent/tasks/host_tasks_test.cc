// A slot's tasks, seen from the agent: what it asks of the keeper. The test holds the keeper's end.
#include "agent/tasks/host_tasks.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "agent/census/process_table.h"
#include "agent/container/engine.h"
#include "agent/process/command.h"
#include "agent/process/handover.h"
#include "agent/process/run_folder.h"
#include "base/testing/temporary_folder.h"

namespace tfdist::agent {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

constexpr auto kDeadline = 20s;

// A descriptor that is not in the place of those that an agent inherits.
UniqueFd Aside(int fd) {
  UniqueFd copy(fcntl(fd, F_DUPFD_CLOEXEC, 20));
  close(fd);
  return copy;
}

class HostTasksTest : public testing::Test {
 protected:
  HostTasksTest() : keeper_end_(MakeInherited()), keeper_(HandoverOf(folder_).ToArguments()) {
    description_.slots = {{"host", "127.0.0.1", false}};
    protocol::TaskDescription task;
    task.task = "worker:0";
    task.argv = {"true"};
    description_.tasks.push_back(task);
    tasks_.Describe(description_);
  }

  static UniqueFd MakeInherited() {
    int commands[2];
    int notes[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, commands), 0);
    EXPECT_EQ(pipe2(notes, O_NONBLOCK), 0);  // NOLINT(android-cloexec-pipe2): Aside() sees to it
    UniqueFd keeper_end = Aside(commands[1]);
    const UniqueFd agent_end = Aside(commands[0]);
    const UniqueFd notes_end = Aside(notes[0]);
    close(notes[1]);
    dup2(agent_end.get(), kCommandFd);
    dup2(notes_end.get(), kNotesFd);
    return keeper_end;
  }
  static Handover HandoverOf(const TemporaryFolder& folder) {
    Handover handover;
    handover.slot_folder = folder.path();
    return handover;
  }

  static Order RunOrder(uint64_t number, int attempt) {
    Order order;
    order.number = number;
    order.attempt = attempt;
    order.addresses = {"127.0.0.1"};
    order.tasks = {{.task = "worker:0", .run = 1}};
    return order;
  }

  void RunUntil(const std::function<bool()>& condition) {
    EventLoop::Timer look(loop_, [] {});
    EventLoop::Timer limit(loop_, [this] {
      ADD_FAILURE() << "waited in vain";
      loop_.Stop();
    });
    EventLoop::Hook check(loop_, [&] {
      look.Start(2ms);
      if (condition()) loop_.Stop();
    });
    limit.Start(kDeadline);
    loop_.Run();
  }

  // The runs that the keeper was asked to start so far.
  std::vector<std::string>& Started() {
    while (auto command = ReceiveCommand(keeper_end_.get()).command) {
      if (command->kind == CommandKind::kStart) started_.push_back(command->run);
      if (command->kind == CommandKind::kStop) stopped_.push_back(command->run);
    }
    return started_;
  }

  protocol::HostDescription description_;
  const TemporaryFolder folder_;
  const SlotFolder slot_folder_{folder_.path()};
  const SlotInfo info_;
  UniqueFd keeper_end_;
  KeeperLink keeper_;
  EventLoop loop_;
  FileThread files_{loop_};
  HostTasks tasks_{loop_, files_, keeper_, slot_folder_, info_, [] {}};
  std::vector<std::string> started_;
  std::vector<std::string> stopped_;  // the same, to end
};

// Its spec is being written when the order comes: there is no holder whose end could be waited for.
TEST_F(HostTasksTest, ARunThatIsNotWantedAnyMoreOnceItIsPreparedIsOver) {
  tasks_.Obey(RunOrder(1, 1));
  Order stop = RunOrder(2, 1);
  stop.goal = Goal::kStop;
  tasks_.Obey(stop);
  EXPECT_FALSE(tasks_.Quiet());
  RunUntil([&] { return tasks_.Quiet(); });
  EXPECT_THAT(Started(), ElementsAre());
  ASSERT_EQ(tasks_.Report().size(), 1U);
  EXPECT_TRUE(tasks_.Report()[0].done);
}

TEST_F(HostTasksTest, ANewerRunDoesNotWaitForOneThatWasPreparedAndNeverStarted) {
  tasks_.Obey(RunOrder(1, 1));
  tasks_.Obey(RunOrder(2, 2));
  RunUntil([&] { return !Started().empty(); });
  EXPECT_THAT(Started(), ElementsAre("run-2-1"));
}

// docker's client, for which a script stands in, waits until the test lets it go on.
TEST_F(HostTasksTest, AnEngineThatDoesNotAnswerKeepsNoFileFromBeingRead) {
  const std::string path = std::getenv("PATH");
  const auto go_on = folder_.path() / "go-on";
  const auto client = folder_.Write(
      "docker", fmt::format("#!/bin/sh\nuntil [ -e {} ]; do sleep 0.05; done\n", go_on.string()));
  std::filesystem::permissions(client, std::filesystem::perms::owner_all);
  const std::string with_stand_in = fmt::format("{}:{}", folder_.path().string(), path);
  setenv("PATH", with_stand_in.c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  RememberEngines(slot_folder_.engines(), {{protocol::EngineKind::kDocker, "1", false, false}});
  description_.tasks[0].container.emplace();
  tasks_.Describe(description_);
  tasks_.Obey(RunOrder(1, 1));
  RunUntil([&] { return !Started().empty(); });
  WriteRunExit(slot_folder_.TaskFolder("worker:0") / "run-1-1", {.error = "its holder was killed"});
  tasks_.OnNotes({{.kind = NoteKind::kExited, .task = "worker-0", .run = "run-1-1"}});
  // The view of the run first, then what follows it on the file thread.
  bool viewed = false;
  files_.Post([] {}, [&](Outcome<void>&) { viewed = true; });
  RunUntil([&] { return viewed; });
  bool read = false;
  files_.Post([] {}, [&](Outcome<void>&) { read = true; });
  RunUntil([&] { return read; });
  EXPECT_FALSE(tasks_.Report()[0].done);
  folder_.Write("go-on", "");
  RunUntil([&] { return tasks_.Report()[0].done; });
  setenv("PATH", path.c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
}

// The keeper has not seen the end of the run before, and says so with a note alone.
TEST_F(HostTasksTest, ARunThatTheKeeperRefusesForTheOneBeforeIsAskedForAgain) {
  tasks_.Obey(RunOrder(1, 1));
  RunUntil([&] { return !Started().empty(); });
  Note refused{.kind = NoteKind::kRefused, .value = EBUSY, .task = "worker-0", .run = "run-1-1"};
  tasks_.OnNotes({refused});
  RunUntil([&] { return Started().size() == 2; });
  EXPECT_THAT(Started(), ElementsAre("run-1-1", "run-1-1"));
  EXPECT_FALSE(tasks_.Report()[0].done);
}

// An agent was killed just after it had asked for a run, whose holder has written nothing yet: the next agent
// must not take that run for one that never was.
TEST_F(HostTasksTest, ARunOfAnEarlierAgentThatLeftNoTraceYetIsEndedBeforeTheNextOneBegins) {
  tasks_.Obey(RunOrder(1, 1));
  RunUntil([&] { return !Started().empty(); });
  HostTasks next(loop_, files_, keeper_, slot_folder_, info_, [] {});
  next.Recover(description_);
  Order asked = RunOrder(2, 1);
  asked.tasks[0].run = 2;
  next.Obey(asked);
  RunUntil([&] { return Started().size() == 2; });
  EXPECT_THAT(Started(), ElementsAre("run-1-1", "run-1-2"));
  EXPECT_THAT(stopped_, ElementsAre("run-1-1"));
}

// Its holder is this test, which minds no order to end: as a process in state D, it outlives SIGKILL.
TEST_F(HostTasksTest, ARunThatCannotBeEndedIsNamed) {
  description_.tasks[0].grace_ms = 0;
  tasks_.Describe(description_);
  tasks_.Obey(RunOrder(1, 1));
  RunUntil([&] { return !Started().empty(); });
  const ProcessId self = ReadProcess(getpid())->id;
  WriteRunPids(slot_folder_.TaskFolder("worker:0") / "run-1-1",
               {.holder = self, .task = self, .boot_id = BootId()});
  Order asked = RunOrder(2, 1);
  asked.tasks[0].run = 2;
  tasks_.Obey(asked);
  RunUntil([&] { return tasks_.Report()[0].run == 2 && tasks_.Report()[0].done; });
  EXPECT_EQ(tasks_.Report()[0].exit->error, "run 1 of it cannot be ended (its process " +
                                                std::to_string(getpid()) + " may be in state D)");
  EXPECT_THAT(Started(), ElementsAre("run-1-1"));
}

}  // namespace
}  // namespace tfdist::agent
