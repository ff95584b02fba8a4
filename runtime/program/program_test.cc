// The executable itself, as tfdist starts it: real processes on 127.0.0.1.
#include "runtime/program/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include "base/clock.h"
#include "base/hash.h"
#include "base/subprocess.h"
#include "base/testing/temporary_folder.h"
#include "base/uncaught.h"
#include "base/unique_fd.h"
#include "runtime/program/testing/child.h"
#include "runtime/program/testing/job.h"
#include "runtime/testing/loopback.h"

namespace tfdist::runtime {
namespace {

using namespace std::chrono_literals;
using testing::Child;
using ::testing::Contains;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using testing::Job;
using testing::kLimit;
using testing::kProgram;
using ::testing::MatchesRegex;
using ::testing::Not;
using testing::NumberAfter;
using ::testing::StartsWith;

bool IsStep(const std::string& line) { return line.starts_with("step "); }

// Ends a parameter server as an agent does, and returns its last line.
std::string EndServer(Child& server) {
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(kLimit), 0);
  return server.lines().empty() ? "" : server.lines().back();
}

TEST(Program, TrainsAndEndsAndReportsWhatWasServed) {
  Job job(2, 2, {});
  job.StartAll();
  ASSERT_EQ(job["master:0"].Wait(kLimit), 0);
  ASSERT_EQ(job["worker:0"].Wait(kLimit), 0);
  EXPECT_THAT(job["master:0"].lines().back(),
              MatchesRegex("final: step 200[0-9], test accuracy 0\\.[0-9]{4}, loss "
                           "0\\.[0-9]{4}, [0-9]+ steps/s"));
  EXPECT_THAT(job["worker:0"].lines().back(), StartsWith("final: step 200"));
  for (const char* trainer : {"master:0", "worker:0"}) {
    EXPECT_THAT(job[trainer].lines(),
                Contains(MatchesRegex("asked: [0-9]+ messages, 0 of them again, [0-9]+ bytes sent, "
                                      "[0-9]+ bytes received, blocked [0-9]+\\.[0-9] s")));
  }
  for (const char* server : {"ps:0", "ps:1"}) {
    const std::string served = EndServer(job[server]);
    EXPECT_THAT(served, MatchesRegex("served: 200[0-9] pulls, 200[0-9] pushes, [0-9]+ bytes "
                                     "received, [0-9]+ bytes sent, 0 refused, .*"));
  }
}

// Started by hand: nobody ends the workers with the chief.
class StopAtAccuracy : public ::testing::TestWithParam<std::string> {};

TEST_P(StopAtAccuracy, EndsTheWorkersTooAndThoseThatComeLater) {
  Job job(2, 3,
          {"--update", GetParam(), "--steps", "1000000000", "--eval-every", "50",
           "--stop-at-accuracy", "0.8"});
  job.StartAll();
  EXPECT_EQ(job["master:0"].Wait(kLimit), 0);
  EXPECT_THAT(job["master:0"].lines(), Contains(StartsWith("master:0 stops: test accuracy 0.")));
  for (const std::string worker : {"worker:0", "worker:1"}) {
    EXPECT_EQ(job[worker].Wait(10s), 0);
    EXPECT_THAT(job[worker].lines(),
                Contains(MatchesRegex(worker + " stops at step [0-9]+: the chief has ended the "
                                               "training")));
  }
  EXPECT_EQ(job.StartAlone("worker:1").Wait(10s), 0);
}

INSTANTIATE_TEST_SUITE_P(InEveryMode, StopAtAccuracy,
                         ::testing::Values("async", "sync", "sync:replicas=2", "staleness:bound=0"),
                         [](const auto& mode) {
                           std::string name = mode.param;
                           std::erase_if(name, [](char c) { return c == ':' || c == '='; });
                           return name;
                         });

TEST(Program, EndsWithAnExitCodeOfItsOwnAfterABug) {
  const char* const argv[] = {"tfdist-runtime", "--help"};
  for (const Say& say : {Say([](const std::string&) { throw std::logic_error("impossible"); }),
                         Say([](const std::string&) { throw 7; })}) {
    EXPECT_EQ(RunProgram(2, argv, say, MakeCpuDevice), kExitInternal);
  }
}

TEST(Program, GoesThroughSharedMemoryUnlessToldNotTo) {
  const auto served_with = [](const std::string& choice) {
    Job job(1, 1, {"--steps", "20", "--shared-memory", choice});
    job.StartAll();
    EXPECT_EQ(job["master:0"].Wait(kLimit), 0);
    return EndServer(job["ps:0"]);
  };
  EXPECT_THAT(served_with("on"), HasSubstr(" bytes through shared memory"));
  EXPECT_THAT(served_with("off"), Not(HasSubstr("through shared memory")));
}

TEST(Program, SpreadsVariablesAsItIsTold) {
  const auto received_by_second = [](std::vector<std::string> options) {
    options.insert(options.end(), {"--steps", "100"});
    Job job(2, 1, options);
    job.StartAll();
    EXPECT_EQ(job["master:0"].Wait(kLimit), 0);
    return NumberAfter(EndServer(job["ps:1"]), "pushes,");
  };
  // A step's gradients: 64 x 128 and 128 x 10 floats of kernels, 138 of biases.
  EXPECT_LT(received_by_second({}), 100 * 1'000);
  EXPECT_GT(received_by_second({"--strategy", "greedy"}), 100 * 5'000);
  EXPECT_GT(received_by_second({"--partitioner", "fixed:2"}), 100 * 18'000);
}

// However late the worker comes: the chief alone, on its half of the digits, reaches 0.9528 in the
// worst of these runs (0.9500 in that of 150), both together 0.9667.
TEST(Program, ReachesNinetyFivePercentInEachOfTenRuns) {
  for (int seed = 1; seed <= 10; ++seed) {
    Job job(2, 2, {"--seed", std::to_string(seed)});
    job.StartAll();
    ASSERT_EQ(job["master:0"].Wait(kLimit), 0);
    EXPECT_GE(NumberAfter(job["master:0"].lines().back(), "test accuracy"), 0.95) << seed;
  }
}

// One trainer takes the same steps each time: 0.9833. Two together reach 0.9806 to 0.9861 (three seeds).
TEST(Program, CnnReachesNinetyEightPercent) {
  Job job(2, 1, {"--model", "cnn", "--filters", "32", "--steps", "1000"});
  job.StartAll();
  ASSERT_EQ(job["master:0"].Wait(kLimit), 0);
  EXPECT_GE(NumberAfter(job["master:0"].lines().back(), "test accuracy"), 0.98);
}

TEST(Program, AStoppedServerHoldsAllTrainersAndLetsThemGoOn) {
  // The job cannot end too early: the pipe that the test reads holds 65,536 bytes, lines of the
  // chief for 7,000 steps at the most, and the worker keeps to the chief.
  Job job(2, 2, {"--steps", "8000", "--eval-every", "5", "--update", "staleness:bound=100"});
  job.StartAll();
  Child& chief = job["master:0"];
  Child& worker = job["worker:0"];
  ASSERT_TRUE(chief.ReadUntil(IsStep, kLimit));
  job["ps:1"].Signal(SIGSTOP);
  // "(reply to step 12)", "(connection)", or what ps:1 said last.
  const auto is_notice = [](const std::string& line) {
    return line.starts_with("waiting for ") && line.find("ps:1 at ") != std::string::npos;
  };
  ASSERT_TRUE(chief.ReadUntil(is_notice, kLimit) && worker.ReadUntil(is_notice, kLimit));
  // The second comes after the connection's heartbeats were given up: it is made anew then.
  ASSERT_TRUE(chief.ReadUntil(is_notice, kLimit));
  job["ps:1"].Signal(SIGCONT);
  EXPECT_TRUE(chief.ReadUntil(IsStep, kLimit));
  EXPECT_EQ(chief.Wait(kLimit), 0);
  EXPECT_EQ(worker.Wait(kLimit), 0);
  // Each once, however often it was sent; the last trainer may have one more.
  EXPECT_THAT(EndServer(job["ps:1"]), ContainsRegex(" 800[01] pushes"));
}

// Of two threads that go on at once the trainer's may look at the clock before ZeroMQ's has read.
TEST(Program, ATrainerThatWasStoppedFindsTheAnswerThatCameMeanwhile) {
  Job job(1, 2, {"--steps", "1000000000", "--update", "sync", "--shared-memory", "off"});
  job.StartAll({"--server-timeout", "8"});
  Child& chief = job["master:0"];
  Child& worker = job["worker:0"];
  ASSERT_TRUE(chief.ReadUntil(IsStep, kLimit));
  worker.Signal(SIGSTOP);
  // Reads what the chief says until it has long been waiting for the worker's gradient.
  EXPECT_FALSE(chief.ReadUntil([](const std::string&) { return false; }, 1s));
  chief.Signal(SIGSTOP);
  worker.Signal(SIGCONT);
  // 10 s after it has pushed for the chief's step and for the next.
  ASSERT_TRUE(worker.ReadUntil(
      [](const std::string& line) { return line.starts_with("waiting for master:0 "); }, kLimit));
  chief.Signal(SIGCONT);
  EXPECT_TRUE(chief.ReadUntil(IsStep, kLimit));
}

TEST(Program, ServerInterruptedBeforeAnythingHappensExitsWithZero) {
  Job job(1, 1, {});
  job.StartAll();
  ASSERT_TRUE(job["ps:0"].ReadUntil(
      [](const auto& line) { return line.starts_with("ps:0 listens at tcp://127.0.0.1:"); },
      kLimit));
  job["ps:0"].Signal(SIGINT);
  EXPECT_EQ(job["ps:0"].Wait(kLimit), 0);
}

TEST(Program, ExportsTheModelOfTheNewestCheckpoint) {
  const TemporaryFolder folder;
  Job job(2, 1, {"--steps", "40", "--checkpoint-dir", folder.path() / "run/"});
  job.StartAll();
  EXPECT_EQ(job["master:0"].Wait(kLimit), 0);
  EXPECT_THAT(job["master:0"].lines(),
              Contains(MatchesRegex("checkpoint .*/run/ckpt-40: step 40, [0-9.]+ kB in .* s")));
  const std::string file = folder.path() / "model.safetensors";
  Child program({kProgram, "export", folder.path() / "run", "--to", file}, {});
  EXPECT_EQ(program.Wait(kLimit), 0);
  EXPECT_EQ(program.lines().back(), file + ": 9610 parameters in 4 variables, step 40");
  EXPECT_GT(std::filesystem::file_size(file), 4 * 9610U);
  Child empty({kProgram, "export", folder.path(), "--to", file}, {});
  EXPECT_EQ(empty.Wait(kLimit), 1);
  EXPECT_THAT(empty.lines().front(), HasSubstr("no checkpoint in "));
}

struct BadStart {
  std::vector<std::string> arguments;
  std::vector<std::string> environment;
  int exit_code;
  std::string message;
};

TEST(Program, NamesTheReasonWhenItCannotStart) {
  const std::string worker =
      R"(TF_CONFIG={"cluster":{"ps":["127.0.0.1:1"],"worker":["a:1"]},"task":{"type":"worker","index":0}})";
  const std::string alone =
      R"(TF_CONFIG={"cluster":{"worker":["a:1"]},"task":{"type":"worker","index":0}})";
  const std::string no_trainer =
      R"(TF_CONFIG={"cluster":{"ps":["a:1"]},"task":{"type":"ps","index":0}})";
  const std::string evaluator = R"(TF_CONFIG={"task":{"type":"evaluator","index":0}})";
  const std::string other =
      R"(TF_CONFIG={"cluster":{"ps":["a:1"],"worker":["a:2"],"x":["a:3"]},"task":{"type":"x","index":0}})";
  const TemporaryFolder folder;
  const std::string short_file = folder.Write("short", "c0ffee\n");
  const std::string open_file = folder.Write("open", RandomHex(32));
  std::filesystem::permissions(open_file, std::filesystem::perms(0644));
  const BadStart cases[] = {
      {{"--batch", "0"}, {worker}, 2, "--batch: expected a whole number from 1 to 65536, got 0"},
      {{"--hidden", "128,x"},
       {worker},
       2,
       "--hidden: expected a whole number from 1 to 65536, got x"},
      {{"--steps", "-1"}, {worker}, 2, "--steps: expected a whole number from 0 on, got -1"},
      {{"--seed=-1"}, {worker}, 2, "--seed: expected a whole number from 0 on, got -1"},
      {{"--seed", "18446744073709551616"}, {worker}, 2, "got 18446744073709551616"},
      {{"--eval-every", "0"},
       {worker},
       2,
       "--eval-every: expected a whole number from 1 on, got 0"},
      {{"--eval-every", "010"}, {worker}, 2, "expected a whole number from 1 on, got 010"},
      {{"--seed", "08"}, {worker}, 2, "expected a whole number from 0 on, got 08"},
      {{"--server-threads", "65"}, {worker}, 2, "expected a whole number from 1 to 64, got 65"},
      {{"--server-timeout", "0.5"}, {worker}, 2, "from 1 to 1000000, got 0.5"},
      {{"--model", "rnn"}, {worker}, 2, "--model"},
      {{"--epochs", "0"}, {worker}, 2, "--epochs"},
      {{"--validation-split", "1"}, {worker}, 2, "--validation-split"},
      {{"--stop-at-accuracy", "nan"}, {worker}, 2, "--stop-at-accuracy"},
      {{"--learning-rate-schedule", "linear"}, {worker}, 2, "there are constant, exponential"},
      {{"--learning-rate", "nan"},
       {worker},
       2,
       "expected a number above 0, at most 3.4e38, got nan"},
      {{"--learning-rate", "inf"},
       {worker},
       2,
       "expected a number above 0, at most 3.4e38, got inf"},
      {{"--learning-rate", "1e400"}, {worker}, 2, "above 0, at most 3.4e38, got 1e400"},
      {{"--learning-rate", "1e39"}, {worker}, 2, "above 0, at most 3.4e38, got 1e39"},
      {{"--learning-rate", "0"}, {worker}, 2, "above 0, at most 3.4e38, got 0"},
      {{"--learning-rate", "-1"}, {worker}, 2, "above 0, at most 3.4e38, got -1"},
      {{"--update", "bsp"}, {worker}, 2, "update mode: no \"bsp\""},
      {{"--optimizer", "adam"}, {worker}, 2, "adam: learning_rate is missing"},
      {{"--optimizer", "sgd:learning_rate=1", "--learning-rate", "1"}, {worker}, 2, "excludes"},
      {{"--stepz", "1"}, {worker}, 2, "--stepz"},
      {{"--keep-checkpoints", "0"}, {worker}, 2, "expected a whole number from 1 to 1000, got 0"},
      {{"export"}, {}, 2, "DIR is required"},
      {{"export", "run"}, {}, 2, "--to is required"},
      {{}, {}, 2, "TF_CONFIG is not set"},
      {{}, {"TF_CONFIG={"}, 2, "TF_CONFIG is not a JSON object"},
      {{}, {alone}, 2, "there is no \"ps\" in the cluster"},
      {{}, {no_trainer}, 2, "there is no chief, master or worker"},
      {{}, {evaluator}, 2, "an evaluator is not supported yet"},
      {{}, {other}, 2, "x is neither parameter server nor trainer"},
      {{}, {worker}, 2, "TFDIST_SECRET_FILE is not set"},
      {{}, {worker, "TFDIST_SECRET_FILE=/nowhere"}, 2, "/nowhere: cannot open: No such file"},
      {{}, {worker, "TFDIST_SECRET_FILE=" + open_file}, 2, "others than its owner may open it"},
      {{}, {worker, "TFDIST_SECRET_FILE=" + short_file}, 2, "not 64 hexadecimal digits"},
      {{}, {worker, "TFDIST_ATTEMPT=0"}, 2, "TFDIST_ATTEMPT: \"0\" is not a number from 1 on"},
      {{"--security", "none"}, {worker}, 2, "a trainer needs --data DIR"},
      {{"--security", "none", "--data", "/nowhere"}, {worker}, 1, "/nowhere: neither"},
  };
  for (const BadStart& bad : cases) {
    std::vector<std::string> argv = {kProgram};
    argv.insert(argv.end(), bad.arguments.begin(), bad.arguments.end());
    Child child(argv, bad.environment);
    EXPECT_EQ(child.Wait(kLimit), bad.exit_code) << bad.message;
    ASSERT_FALSE(child.lines().empty()) << bad.message;
    EXPECT_THAT(child.lines().front(), StartsWith("tfdist-runtime: "));
    EXPECT_THAT(child.lines().front(), HasSubstr(bad.message));
  }
}

// Connections to a port of 127.0.0.1 on which nothing is sent.
class IdleConnections {
 public:
  IdleConnections(int port, size_t count) {
    const sockaddr_in server = testing::Loopback(port);
    for (size_t i = 0; i < count; ++i) {
      UniqueFd& caller = callers_.emplace_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      EXPECT_EQ(connect(caller.get(), reinterpret_cast<const sockaddr*>(&server), sizeof server),
                0);
    }
  }

  // Waits until at most `most` connections are still open.
  bool WaitUntilOpen(size_t most, std::chrono::seconds limit) {
    const auto deadline = SystemClock().Now() + limit;
    while (callers_.size() > most && SystemClock().Now() < deadline) {
      std::vector<pollfd> items;
      for (const UniqueFd& caller : callers_) items.push_back({caller.get(), POLLRDHUP, 0});
      poll(items.data(), items.size(), 100);
      std::vector<UniqueFd> open;
      for (size_t i = 0; i < items.size(); ++i) {
        if (items[i].revents == 0) open.push_back(std::move(callers_[i]));
      }
      callers_ = std::move(open);
    }
    return callers_.size() <= most;
  }

 private:
  std::vector<UniqueFd> callers_;
};

TEST(Program, ServerWithFewDescriptorsServesTrainersBesideManyIdleConnections) {
  Job job(1, 1, {"--steps", "50"});
  Child& server = job.StartAlone("ps:0", "ulimit -n 256");
  ASSERT_EQ(job.StartAlone("master:0").Wait(kLimit), 0);
  const auto used = server.CpuTime();
  IdleConnections idle(job.PortOf("ps", 0), 400);
  // Before their handshakes time out, which takes 5 s and is too late for those behind them.
  EXPECT_TRUE(idle.WaitUntilOpen(100, 4s));
  EXPECT_LT(server.CpuTime() - used, 2s);
  EXPECT_EQ(job.StartAlone("master:0").Wait(kLimit), 0);
  EXPECT_THAT(EndServer(server), StartsWith("served: "));
}

#ifndef __SANITIZE_ADDRESS__
TEST(Program, NeedsNothingButGlibc) {
  if (TFDIST_TEST_SANITIZED) GTEST_SKIP() << "a sanitizer's runtime is a library";
  ProgramOptions options;
  options.argv = {"readelf", "-d", kProgram};
  const ProgramResult result = RunProgram(options, SystemClock().Now() + 60s);
  ASSERT_EQ(result.exit_code, 0);
  std::istringstream output(result.output);
  for (std::string line; std::getline(output, line);) {
    if (line.find("(NEEDED)") == std::string::npos) continue;
    EXPECT_THAT(line, MatchesRegex(".*\\[(libc|libm|ld-linux-x86-64)\\.so\\.[0-9]+\\]"));
  }
}
#endif

}  // namespace
}  // namespace tfdist::runtime
