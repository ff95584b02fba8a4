#include "cli/check/findings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>

namespace tfdist::cli {
namespace {

using namespace std::chrono_literals;
using protocol::PortFact;
using protocol::ReachFailure;
using protocol::Target;
using protocol::Trouble;
using protocol::Unreached;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// Hosts 10.0.0.1, 10.0.0.2, ... with a worker on port 2222 each, and nothing wrong.
class FindingsTest : public testing::Test {
 protected:
  FindingsTest() {
    for (int host = 0; host < 4; ++host) AddHost();
  }

  void AddHost() {
    const int slot = static_cast<int>(plan_.hosts.size());
    HostPlan host;
    host.address = "10.0.0." + std::to_string(slot + 1);
    host.name = "h" + std::to_string(slot + 1);
    plan_.hosts.push_back(host);
    TaskOnHost task;
    task.id = {"worker", slot};
    task.slot = slot;
    task.port = 2222;
    plan_.tasks.push_back(task);
    HostReport report;
    report.base = "/home/u/.cache/tfdist";
    report.kind = "x86_64";
    report.facts.emplace();
    report.facts->machine = host.name;
    report.facts->disk_free_bytes = uint64_t{100} << 30;
    report.facts->files_free = 1'000'000;
    report.facts->ports = {{.port = 2222, .task = "worker", .trouble = {}}};
    report.clock = ClockReading{0ns, 1ms};
    report.unreached.emplace();
    reports_.push_back(report);
  }

  // Each host was to reach all others at these ports; `how`: why it could not.
  void Dial(
      const std::vector<int>& ports,
      const std::function<std::optional<ReachFailure>(size_t from, size_t to, int port)>& how) {
    for (size_t from = 0; from < reports_.size(); ++from) {
      HostReport& report = reports_[from];
      for (size_t to = 0; to < reports_.size(); ++to) {
        for (const int port : ports) {
          if (from == to) continue;
          report.targets.push_back({static_cast<int>(to), plan_.hosts[to].address, port});
          const auto failure = how(from, to, port);
          if (!failure) continue;
          report.unreached->push_back({.target = report.targets.size() - 1,
                                       .failure = *failure,
                                       .address = plan_.hosts[to].address,
                                       .why = "Connection timed out"});
        }
      }
    }
  }

  // "error reach h2: what"
  [[nodiscard]] std::vector<std::string> Found() const {
    std::vector<std::string> found;
    for (const Finding& finding : FindingsOf(plan_, reports_)) {
      EXPECT_FALSE(finding.remedy.empty()) << finding.what;
      found.push_back((finding.severity == Severity::kError ? "error " : "warning ") +
                      finding.check + " " + finding.host + ": " + finding.what);
    }
    return found;
  }
  [[nodiscard]] std::string Remedy() const { return FindingsOf(plan_, reports_).at(0).remedy; }

  Plan plan_;
  std::vector<HostReport> reports_;
};

TEST_F(FindingsTest, NothingIsFoundWhereNothingIsWrong) { EXPECT_THAT(Found(), IsEmpty()); }

TEST_F(FindingsTest, APortThatNobodyReachesIsOneFinding) {
  Dial({2222, 2223}, [](size_t, size_t to, int) {
    return to == 1 ? std::optional(ReachFailure::kSilent) : std::nullopt;
  });
  EXPECT_THAT(Found(), ElementsAre("error reach h2: no other host can connect to ports 2222, 2223 "
                                   "at 10.0.0.2: no answer: packets are dropped on the way"));
  EXPECT_THAT(Remedy(), HasSubstr("ufw allow proto tcp from any to any port 2222,2223"));
}

TEST_F(FindingsTest, TheBuiltInProgramOnAnotherKindOfMachineIsAnError) {
  reports_[1].kind = reports_[2].kind = "aarch64";
  plan_.tasks[1].argv = {std::string(protocol::kRuntimePath), "--data", "digits"};
  plan_.tasks[2].argv = {"python3", "train.py"};
  EXPECT_THAT(Found(),
              ElementsAre("error runtime h2: its tasks use {runtime}, which is for x86_64; "
                          "the host is aarch64"));
  EXPECT_THAT(Remedy(), HasSubstr("a program of your own"));
}

TEST_F(FindingsTest, ACutBetweenTwoHostsNamesBothAndTheRuleForTheirAddresses) {
  Dial({2222, 2223}, [](size_t from, size_t to, int port) {
    return from == 2 && to == 1 && port == 2223 ? std::optional(ReachFailure::kRefused)
                                                : std::nullopt;
  });
  EXPECT_THAT(Found(), ElementsAre("error reach h2: h3 cannot connect to port 2223 at 10.0.0.2: "
                                   "Connection timed out, though this host listens there"));
  EXPECT_THAT(Remedy(), HasSubstr("ip saddr { 10.0.0.3 } tcp dport { 2223 } accept"));
}

TEST_F(FindingsTest, AHostThatReachesNobodyIsOneFinding) {
  Dial({2222}, [](size_t from, size_t, int) {
    return from == 3 ? std::optional(ReachFailure::kSilent) : std::nullopt;
  });
  EXPECT_THAT(Found(), ElementsAre("error reach h4: it cannot connect to any of 3 other hosts "
                                   "(Connection timed out)"));
}

TEST_F(FindingsTest, AnAnswerOfAnotherHostIsToldAsSuch) {
  Dial({2222}, [](size_t from, size_t to, int) {
    return from == 0 && to == 1 ? std::optional(ReachFailure::kOtherHost) : std::nullopt;
  });
  reports_[0].unreached->front().answered_by = 3;
  EXPECT_THAT(Found(), ElementsAre("error reach h2: port 2222 at 10.0.0.2: h1 reaches h4 there, "
                                   "and not this host"));
  reports_[0].unreached->front().answered_by = 1'000'000;  // a host may say anything
  EXPECT_THAT(Found(), ElementsAre(HasSubstr("reaches slot 1000000 there")));
}

TEST_F(FindingsTest, ANameThatIsNotResolvedIsToldByTheNamesAlone) {
  plan_.hosts[1].address = "gpu2";
  reports_[0].facts->names.names = {{.name = "gpu2", .addresses = {}, .why = "not known"}};
  Dial({2222}, [](size_t from, size_t to, int) {
    return from == 0 && to == 1 ? std::optional(ReachFailure::kUnresolved) : std::nullopt;
  });
  EXPECT_THAT(Found(), ElementsAre("error names : names cannot be resolved: gpu2 on h1"));
}

TEST_F(FindingsTest, TwoNamesForOneMachineAreAnErrorWhereTheyShareAPort) {
  reports_[3].facts->machine = "h1";
  plan_.tasks[3].port = 2223;
  EXPECT_THAT(Found(), ElementsAre("warning machines : h1, h4 are one machine"));
  plan_.tasks[3].more_ports["board"] = 2222;
  reports_[3].facts->ports[0].trouble = Trouble{"in use", "end it"};
  reports_[3].facts->ports[0].held_by = 0;
  EXPECT_THAT(Found(), ElementsAre("error machines : h1, h4 are one machine, and more than one "
                                   "task is to listen on port 2222"));
}

TEST_F(FindingsTest, TwoNamesForThisMachineAreAWarningUnlessEachIsAnAddressOfItsOwn) {
  for (size_t slot = 0; slot < 4; ++slot) {
    plan_.hosts[slot].local = true;
    plan_.hosts[slot].address = "127.0.0." + std::to_string(slot + 2);
    reports_[slot].facts->machine = "h1";
  }
  plan_.hosts[0].address = "127.0.0.1";
  plan_.hosts[3].address = "localhost";
  plan_.tasks[3].port = 2223;
  EXPECT_THAT(Found(), ElementsAre("warning machines : h1, h4 are one machine"));
  plan_.hosts[3].address = "127.0.0.4";
  EXPECT_THAT(Found(), IsEmpty());
}

TEST_F(FindingsTest, TwoHostsOfWhichOneHasThePortOfTheOtherAreOneMachine) {
  // Other network addresses, and nothing else tells.
  reports_[3].facts->ports[0].trouble = Trouble{"in use", "end it"};
  reports_[3].facts->ports[0].held_by = 0;
  EXPECT_THAT(Found(), ElementsAre("error machines : h1, h4 are one machine, and more than one "
                                   "task is to listen on port 2222"));
  EXPECT_THAT(Remedy(), HasSubstr("list it once"));
  // One address, by two servers of SSH.
  plan_.hosts[3].address = plan_.hosts[0].address;
  EXPECT_THAT(Found(), ElementsAre("error machines : h1, h4 are one machine, and more than one "
                                   "task is to listen on port 2222"));
}

TEST_F(FindingsTest, SlotsThatThePlanPutsOnOneMachineAreFine) {
  reports_[3].facts->machine = "h1";
  plan_.hosts[3].address = plan_.hosts[0].address;
  EXPECT_THAT(Found(), IsEmpty());
}

TEST_F(FindingsTest, LoopbackOnSeveralMachinesIsAnError) {
  for (HostPlan& host : plan_.hosts) host.address = "127.0.0.1";
  EXPECT_THAT(Found(), testing::Contains(HasSubstr("127.0.0.1 means themselves")).Times(4));
}

TEST_F(FindingsTest, TheClockThatIsApartFromTheOthersIsNamed) {
  for (HostReport& report : reports_) report.clock->ahead = -10s;  // this machine's own is wrong
  EXPECT_THAT(Found(), IsEmpty());
  reports_[2].clock->ahead = 5s;
  EXPECT_THAT(
      Found(),
      ElementsAre("warning clock h3: its clock is 15.0 s ahead of that of the other hosts"));
  reports_[2].clock->error = 20s;  // an answer that took so long says nothing
  EXPECT_THAT(Found(), IsEmpty());
}

TEST_F(FindingsTest, GpusThatTheHostRefusesAreAnErrorInItsWords) {
  reports_[1].facts->gpus_refused = Trouble{"worker:1 is to use GPU 3", "correct `gpus`"};
  EXPECT_THAT(Found(), ElementsAre("error gpus h2: worker:1 is to use GPU 3"));
}

TEST_F(FindingsTest, AnotherJobThatHasTheNameIsAnErrorInTheWordsOfItsHost) {
  reports_[1].facts->taken = Trouble{"a job named 'a' runs on this host: a-1", "end it"};
  EXPECT_THAT(Found(), ElementsAre("error job h2: a job named 'a' runs on this host: a-1"));
}

TEST_F(FindingsTest, AHostThatLacksAGpuOfItsKindIsNamed) {
  for (HostReport& report : reports_) report.facts->gpus = {"A", "A"};
  reports_[3].facts->gpus = {"A"};
  EXPECT_THAT(Found(), ElementsAre("warning gpus : the hosts of worker differ in their number of "
                                   "GPUs: 1 on h4; 2 on h1, h2, h3"));
  reports_[3].facts->gpus.clear();
  reports_[3].facts->gpu_trouble = "nvidia-smi: driver/library version mismatch";
  EXPECT_THAT(Found(), ElementsAre("warning gpus h4: nvidia-smi: driver/library version mismatch"));
  for (TaskOnHost& task : plan_.tasks) task.gpus = std::vector<std::string>();
  EXPECT_THAT(Found(), IsEmpty());
}

TEST_F(FindingsTest, VersionsAreCompared) {
  for (HostReport& report : reports_) {
    report.facts->python =
        protocol::PythonFact{"python3", "3.11.2", {{"tensorflow", "2.15.0"}}, ""};
  }
  EXPECT_THAT(Found(), IsEmpty());
  reports_[1].facts->python->packages = {{"tensorflow", "2.12.1"}};
  reports_[2].facts->python->packages = {{"tensorflow", ""}};
  EXPECT_THAT(Found(), ElementsAre("error python h3: python3 3.11.2 has no package tensorflow",
                                   "warning python : the hosts have different versions of "
                                   "tensorflow: 2.12.1 on h2; 2.15.0 on h1, h4"));
}

TEST_F(FindingsTest, APythonThatAShellMayNotStartStopsNoJob) {
  for (HostReport& report : reports_) {
    report.facts->python = protocol::PythonFact{"python3", "3.11.2", {{"numpy", "2.0"}}, ""};
  }
  reports_[2].facts->python->packages = {{"numpy", ""}};
  for (TaskOnHost& task : plan_.tasks) {
    task.argv = {"bash", "-lc", "source ~/venv/bin/activate && exec python train.py"};
  }
  EXPECT_THAT(Found(), Contains(HasSubstr("warning python h3: python3 there lacks packages")));
  EXPECT_THAT(Found(), Not(Contains(HasSubstr("error"))));
}

TEST_F(FindingsTest, OneHostsOwnTroublesAreTold) {
  reports_[0].failure = Error(Phase::kAuth, "no", "yes").WithHost("h1");
  reports_[0].facts.reset();
  reports_[1].facts->disk_free_bytes = 5 << 20;
  reports_[2].facts->logout = Trouble{"KillUserProcesses=yes", "write it"};
  reports_[3].facts->commands = {{"command 'x' of worker:3: not found", "install it"}};
  EXPECT_THAT(Found(),
              ElementsAre("error authentication h1: no", "error logout h3: KillUserProcesses=yes",
                          "error command h4: command 'x' of worker:3: not found",
                          "warning disk h2: 5 MiB are free at /home/u/.cache/tfdist"));
}

TEST_F(FindingsTest, SlotsOfOneMachineShareItsDisk) {
  for (const size_t slot : {size_t{1}, size_t{2}}) {
    plan_.hosts[slot].address = "10.0.0.2";
    reports_[slot].facts->machine = "h2";
    reports_[slot].facts->disk_free_bytes = uint64_t{10} << 30;
  }
  const WorkSize work{.bytes = uint64_t{5} << 30, .large_bytes = uint64_t{4} << 30, .entries = 10};
  reports_[2].facts->kept_bytes = uint64_t{4} << 30;
  const auto findings = FindingsOf(plan_, reports_, false, work);
  ASSERT_EQ(findings.size(), 2);
  EXPECT_EQ(findings[1].severity, Severity::kWarning);
  EXPECT_EQ(findings[0].what,
            "the job's files need 14336 MiB at /home/u/.cache/tfdist, where 10240 MiB are free");
  EXPECT_TRUE(FindingsOf(plan_, reports_, true, work).empty());
}

TEST_F(FindingsTest, RoomForFewFilesIsAnErrorWhereTheJobNeedsMore) {
  reports_[0].facts->files_free = 20;
  reports_[1].facts->files_free = 500;
  EXPECT_THAT(Found(), ElementsAre("error disk h1: the job needs room for 32 files at "
                                   "/home/u/.cache/tfdist, where room for 20 is left",
                                   "warning disk h2: room for 500 files is left at "
                                   "/home/u/.cache/tfdist"));
}

TEST(ListTest, NamesAFewAndCountsTheOthers) {
  EXPECT_EQ(ListOf({"a", "b"}), "a, b");
  EXPECT_EQ(ListOf({"a", "b", "c", "d", "e", "f"}), "a, b, c, d and 2 more");
}

}  // namespace
}  // namespace tfdist::cli
