// What the layouts make of hosts: TF_CONFIG, roles, slots, policies.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "base/testing/test_paths.h"
#include "cli/plan/describe.h"
#include "cli/plan/testing/test_files.h"

namespace tfdist::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class Layout : public PlanTest {};
using Addresses = std::vector<std::string>;

Addresses Numbered(int first, int last, int port) {
  Addresses addresses;
  for (int i = first; i <= last; ++i) addresses.push_back(fmt::format("10.0.0.{}:{}", i, port));
  return addresses;
}

TEST_F(Layout, UaiGivesEveryTaskTheClusterOfUcloudsPage) {
  for (const int hosts : {2, 3, 4, 16}) {
    const Plan plan = LoadCluster(fmt::format("hosts = [\"10.0.0.[1-{}]\"]", hosts));
    ClusterSpec expected;
    expected.tasks["master"] = {"10.0.0.1:2222"};
    expected.tasks["ps"] = Numbered(1, hosts, 2223);
    expected.tasks["worker"] = Numbered(2, hosts, 2222);
    ASSERT_EQ(plan.tasks.size(), static_cast<size_t>(2 * hosts));
    for (const TaskOnHost& task : plan.tasks) {
      const TfConfig config = TfConfigOf(plan, ToString(task.id));
      EXPECT_EQ(config.cluster, expected) << ToString(task.id);
      EXPECT_EQ(config.task, task.id);
      EXPECT_EQ(config.environment, "cloud");
      EXPECT_EQ(task.chief, ToString(task.id) == "master:0");
    }
    EXPECT_EQ(plan.cluster, expected);
  }
}

TEST_F(Layout, TheClusterFilesOfConfigsAreFine) {
  int files = 0;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(TestSourceDir() / "configs")) {
    if (entry.path().extension() != ".toml") continue;
    ++files;
    try {
      EXPECT_FALSE(LoadPlan(entry.path()).tasks.empty());
    } catch (const PlanErrors& errors) {
      ADD_FAILURE() << errors.Report();
    }
  }
  EXPECT_GE(files, 11);
}

TEST_F(Layout, UaiPutsAParameterServerAndATrainerOnEachHost) {
  const Plan plan = LoadCluster("hosts = [\"10.0.0.[1-3]\"]");
  EXPECT_THAT(Places(plan), ElementsAre("ps:0@10.0.0.1:2223", "master:0@10.0.0.1:2222",
                                        "ps:1@10.0.0.2:2223", "worker:0@10.0.0.2:2222",
                                        "ps:2@10.0.0.3:2223", "worker:1@10.0.0.3:2222"));
}

TEST_F(Layout, UaiOnOneHostHasNoWorkerKeyAtAll) {
  const Plan plan = LoadCluster("hosts = [\"10.0.0.1\"]");
  const std::string json = EnvOf(plan, "master:0", "TF_CONFIG");
  EXPECT_EQ(json, R"({"cluster":{"master":["10.0.0.1:2222"],"ps":["10.0.0.1:2223"]},)"
                  R"("task":{"type":"master","index":0},"environment":"cloud"})");
  EXPECT_TRUE(TaskNamed(plan, "master:0").decides);
}

TEST_F(Layout, UserAndPortOfAHostAreForSshAlone) {
  const Plan plan = LoadCluster(
      "hosts = [\"me@gpu[1-2]:2200, [fd00::3]:22\", \"you@corp.example@fd00::4,gpu5\",\n"
      "  { address = \"gpu6\", ssh = \"them@gate:2201\" }]");
  EXPECT_EQ(plan.cluster.tasks.at("ps"), (Addresses{"gpu1:2223", "gpu2:2223", "[fd00::3]:2223",
                                                    "[fd00::4]:2223", "gpu5:2223", "gpu6:2223"}));
  std::vector<std::string> logins;
  for (const HostPlan& host : plan.hosts) {
    logins.push_back(
        fmt::format("{} {}@{}:{}", host.name, host.ssh_user, host.ssh, host.ssh_port.value_or(0)));
  }
  EXPECT_THAT(logins, ElementsAre("gpu1 me@gpu1:2200", "gpu2 me@gpu2:2200", "fd00::3 @fd00::3:22",
                                  "fd00::4 you@corp.example@fd00::4:0", "gpu5 @gpu5:0",
                                  "gpu6 them@gate:2201"));
}

TEST_F(Layout, RanksCountTheChiefFirstAndPsLast) {
  const Plan plan = LoadCluster("hosts = [\"h[1-2]\", { address = \"h3\", slots = 2 }]");
  std::vector<std::string> ranks;
  for (const TaskOnHost& task : plan.tasks) {
    ranks.push_back(fmt::format("{} {} {}", ToString(task.id), task.rank, task.local_rank));
  }
  EXPECT_THAT(ranks, ElementsAre("ps:0 4 1", "master:0 0 0", "ps:1 5 1", "worker:0 1 0", "ps:2 6 2",
                                 "worker:1 2 0", "ps:3 7 3", "worker:2 3 1"));
}

TEST_F(Layout, RanksAreInTheOrderOfTheFile) {
  const Plan plan = LoadCluster(
      "hosts = [\"h1\"]\nlayout = \"roles\"\n[roles.trainer]\ncount = 1\n[roles.ps]\ncount = 1\n"
      "[roles.actor]\ncount = 2\n[roles.chief]\ncount = 1\n");
  std::vector<std::string> ranks(static_cast<size_t>(plan.world_size));
  for (const TaskOnHost& task : plan.tasks) {
    ranks.at(static_cast<size_t>(task.rank)) = ToString(task.id);
  }
  EXPECT_THAT(ranks, ElementsAre("chief:0", "trainer:0", "actor:0", "actor:1", "ps:0"));
}

TEST_F(Layout, AnExclusiveJobKnowsWhenALostHostsTasksHaveEnded) {
  const std::string head = "hosts = [\"h1\", { address = \"h2\", spare = true }]\n[restart]\n";
  const auto job =
      DescribeJob(LoadCluster(head + "exclusive = true\norphan_timeout = \"1m\"\n"), "id");
  EXPECT_TRUE(job.exclusive);
  EXPECT_EQ(job.orphan_timeout_ms, 60'000);
  EXPECT_EQ(protocol::LostTasksLimit(job), std::chrono::seconds(80)) << "with a grace of 10 s";
  const auto long_silence = DescribeJob(LoadCluster(head + "host_lost = \"10m\"\n"), "id");
  EXPECT_EQ(long_silence.orphan_timeout_ms, 1'200'000);
}

TEST_F(Layout, TimesAndLostHostsReachTheCoordinator) {
  const std::string text =
      "hosts = [\"h1\", { address = \"h2\", spare = true }]\n[restart]\n"
      "on_host_lost = \"wait\"\nhost_lost = \"1m\"\n"
      "worker = { policy = \"exit-code\", within = \"1h\" }\n";
  const auto job = DescribeJob(LoadCluster(text), "id");
  EXPECT_EQ(job.on_host_lost, protocol::OnHostLost::kWait);
  EXPECT_EQ(job.host_lost_ms, 60'000);
  EXPECT_FALSE(job.exclusive);
  EXPECT_EQ(job.orphan_timeout_ms, 300'000);
  EXPECT_TRUE(job.slots.at(1).spare);
  EXPECT_EQ(job.finish_timeout_ms, 0);
  EXPECT_EQ(DescribeJob(LoadCluster("hosts = [\"h1\", \"h2\"]\nlayout = \"mirrored\""), "id")
                .finish_timeout_ms,
            600'000);
}

TEST_F(Layout, PythonIsUnbufferedUnlessTheFileSaysOtherwise) {
  EXPECT_EQ(EnvOf(LoadCluster("hosts = [\"h1\"]"), "ps:0", "PYTHONUNBUFFERED"), "1");
  const Plan plan = LoadCluster("hosts = [\"h1\"]\n[roles.ps]\nenv = { PYTHONUNBUFFERED = \"\" }");
  EXPECT_EQ(EnvOf(plan, "ps:0", "PYTHONUNBUFFERED"), "");
}

TEST_F(Layout, HostsKeepTheOrderOfTheFile) {
  const Plan plan = LoadCluster("hosts = [\"10.9.0.10\", \"10.9.0.9\"]");
  EXPECT_EQ(plan.cluster.tasks.at("ps"), (Addresses{"10.9.0.10:2223", "10.9.0.9:2223"}));
}

TEST_F(Layout, UaiCallsItsChiefAsTheFileSays) {
  const Plan plan = LoadCluster("hosts = [\"h[1-2]\"]\nchief_name = \"chief\"");
  EXPECT_THAT(Places(plan),
              ElementsAre("ps:0@h1:2223", "chief:0@h1:2222", "ps:1@h2:2223", "worker:0@h2:2222"));
  EXPECT_TRUE(TaskNamed(plan, "chief:0").chief);
}

TEST_F(Layout, TheChiefOfAPresetIsATrainerLikeTheWorkers) {
  const Plan plan = LoadCluster(R"(hosts = ["h[1-2]"]
[roles.worker]
command = ["train"]
[roles.worker.env]
A = "workers"
B = "workers"
[roles.master.env]
A = "masters"
)");
  EXPECT_THAT(ArgvOf(plan, "master:0"), ElementsAre("train"));
  EXPECT_THAT(ArgvOf(plan, "ps:0"), ElementsAre("program"));
  EXPECT_EQ(EnvOf(plan, "master:0", "A"), "masters");
  EXPECT_EQ(EnvOf(plan, "master:0", "B"), "workers");
  EXPECT_EQ(EnvOf(plan, "worker:0", "A"), "workers");
}

TEST_F(Layout, SlotsMakeOneMachineSeveralHosts) {
  const Plan plan =
      LoadCluster("hosts = [{ address = \"127.0.0.1\", transport = \"local\", slots = 2 }]");
  ASSERT_EQ(plan.hosts.size(), 2U);
  EXPECT_TRUE(plan.hosts[0].local && plan.hosts[1].local);
  EXPECT_THAT(Places(plan), ElementsAre("ps:0@127.0.0.1:2223", "master:0@127.0.0.1:2222",
                                        "ps:1@127.0.0.1:2224", "worker:0@127.0.0.1:2225"));
}

TEST_F(Layout, ServersThatNobodyHasNamedAreWarnedOf) {
  const auto warnings = [&](const std::string& more) {
    return LoadCluster("hosts = [\"h[1-3]\"]\n" + more).warnings;
  };
  EXPECT_THAT(warnings(""),
              ElementsAre(HasSubstr("a ps runs beside each trainer: write layout = ")));
  for (const char* more : {"layout = \"uai\"", "layout = \"mirrored\"", "ports = { ps = 2223 }",
                           "[roles.worker]\nper_host = 2"}) {
    EXPECT_THAT(warnings(more), IsEmpty()) << more;
  }
}

TEST_F(Layout, MirroredHasWorkersOnlyAndNoEnvironment) {
  const Plan plan = LoadCluster("hosts = [\"h[1-3]\"]\nlayout = \"mirrored\"");
  EXPECT_EQ(EnvOf(plan, "worker:1", "TF_CONFIG"),
            R"({"cluster":{"worker":["h1:2222","h2:2222","h3:2222"]},)"
            R"("task":{"type":"worker","index":1}})");
  EXPECT_TRUE(TaskNamed(plan, "worker:0").chief);
  EXPECT_FALSE(TaskNamed(plan, "worker:1").chief);
  EXPECT_EQ(TaskNamed(plan, "worker:1").restart.policy, protocol::RestartPolicy::kGang);
}

TEST_F(Layout, MirroredCanNameItsChief) {
  const Plan plan =
      LoadCluster("hosts = [\"h[1-2]\"]\nlayout = \"mirrored\"\nchief_name = \"chief\"");
  EXPECT_THAT(Places(plan), ElementsAre("chief:0@h1:2222", "worker:0@h2:2222"));
}

TEST_F(Layout, MirroredGivesItsEvaluatorNoCluster) {
  const Plan plan = LoadCluster(
      "hosts = [\"h[1-2]\"]\nlayout = \"mirrored\"\n[roles.evaluator]\nhosts = [\"h9\"]");
  EXPECT_EQ(EnvOf(plan, "evaluator:0", "TF_CONFIG"),
            R"({"cluster":{},"task":{"type":"evaluator","index":0}})");
}

TEST_F(Layout, AnEvaluatorSeesTheClusterAndIsNotInIt) {
  const Plan plan = LoadCluster(
      "hosts = [\"h[1-2]\"]\nchief_name = \"chief\"\n[roles.evaluator]\nhosts = [\"h9\"]");
  const TfConfig config = TfConfigOf(plan, "evaluator:0");
  EXPECT_EQ(config.cluster, plan.cluster);
  EXPECT_FALSE(config.cluster.tasks.contains("evaluator"));
  const TaskOnHost& evaluator = TaskNamed(plan, "evaluator:0");
  EXPECT_EQ(plan.hosts.at(static_cast<size_t>(evaluator.slot)).address, "h9");
  EXPECT_TRUE(evaluator.may_fail);
  EXPECT_FALSE(evaluator.decides);
  EXPECT_EQ(evaluator.restart.policy, protocol::RestartPolicy::kTask);
  EXPECT_THAT(DescribeTask(plan, evaluator).ports, IsEmpty());
}

TEST_F(Layout, RolesAreWhateverTheFileSays) {
  const Plan plan = LoadCluster(R"(hosts = ["h[1-4]"]
layout = "roles"
[roles.ps]
count = 2
[roles.chief]
hosts = ["h1"]
[roles.worker]
hosts = ["h[2-4]"]
[roles.reader]
per_host = 1
ports = 3000
)");
  EXPECT_THAT(Places(plan),
              ElementsAre("ps:0@h1:2223", "chief:0@h1:2222", "reader:0@h1:3000", "ps:1@h2:2223",
                          "worker:0@h2:2222", "reader:1@h2:3000", "worker:1@h3:2222",
                          "reader:2@h3:3000", "worker:2@h4:2222", "reader:3@h4:3000"));
  EXPECT_EQ(TfConfigOf(plan, "reader:3").cluster.tasks.at("reader").size(), 4U);
  EXPECT_EQ(TfConfigOf(plan, "ps:0").environment, "cloud");
}

TEST_F(Layout, CountSpreadsEvenlyAndPerHostFillsUp) {
  const std::string head = "hosts = [\"h[1-3]\"]\nlayout = \"roles\"\n[roles.worker]\n";
  EXPECT_THAT(
      Places(LoadCluster(head + "count = 4")),
      ElementsAre("worker:0@h1:2222", "worker:1@h1:2223", "worker:2@h2:2222", "worker:3@h3:2222"));
  EXPECT_THAT(Places(LoadCluster(head + "count = 3\nper_host = 2")),
              ElementsAre("worker:0@h1:2222", "worker:1@h1:2223", "worker:2@h2:2222"));
}

TEST_F(Layout, PerHostMultipliesARoleOfAPreset) {
  const Plan plan = LoadCluster("hosts = [\"h[1-3]\"]\n[roles.worker]\nper_host = 2");
  EXPECT_EQ(plan.cluster.tasks.at("worker"),
            (Addresses{"h2:2222", "h2:2224", "h3:2222", "h3:2224"}));
  EXPECT_EQ(plan.cluster.tasks.at("master"), (Addresses{"h1:2222"}));
}

TEST_F(Layout, RolesNeedNoClusterHosts) {
  const Plan plan = LoadCluster(
      "layout = \"roles\"\n[roles.worker]\nhosts = [\"h1\", { address = \"h2\", ssh = \"gpu2\" }]");
  ASSERT_EQ(plan.hosts.size(), 2U);
  EXPECT_EQ(plan.hosts[1].ssh, "gpu2");
}

TEST_F(Layout, SparesComeLastAndCarryNothing) {
  const Plan plan = LoadCluster(
      "hosts = [{ address = \"spare\", spare = true }, \"h1\"]\n[roles.reader]\nhosts = "
      "[\"h9\"]\nports = 9");
  ASSERT_EQ(plan.hosts.size(), 3U);
  EXPECT_EQ(plan.hosts[0].name, "h1");
  EXPECT_EQ(plan.hosts[1].name, "h9");
  EXPECT_TRUE(plan.hosts[2].spare);
  for (const TaskOnHost& task : plan.tasks) EXPECT_NE(task.slot, 2);
}

TEST_F(Layout, TextsNameSlotsSoThatASpareCanTakeOneOver) {
  const Plan plan = LoadCluster("hosts = [\"h[1-2]\"]");
  const auto description = DescribeTask(plan, TaskNamed(plan, "ps:0"));
  const std::vector<std::string> moved = {"10.0.0.9", "fd00::9"};
  const TfConfig config =
      TfConfig::FromJson(protocol::Fill(description.env.at(0).second, {moved, plan.common, {}}));
  EXPECT_EQ(config.cluster.tasks.at("ps"), (Addresses{"10.0.0.9:2223", "[fd00::9]:2223"}));
}

TEST_F(Layout, Ipv6StandsInBracketsBeforeAPort) {
  const Plan plan = LoadCluster("hosts = [\"fd00::1\", \"[fd00::2]\"]");
  EXPECT_EQ(plan.cluster.tasks.at("ps"), (Addresses{"[fd00::1]:2223", "[fd00::2]:2223"}));
  EXPECT_EQ(TfConfigOf(plan, "worker:0").cluster, plan.cluster);
  EXPECT_EQ(plan.hosts[1].ssh, "fd00::2");
}

TEST_F(Layout, LocalhostNeedsNoSsh) {
  const Plan plan = LoadCluster("hosts = [\"localhost\"]");
  EXPECT_TRUE(plan.hosts[0].local);
  EXPECT_FALSE(LoadCluster("hosts = [\"127.0.0.1\"]").hosts[0].local);
  EXPECT_FALSE(LoadCluster("hosts = [{ address = \"localhost\", ssh = \"box\" }]").hosts[0].local);
}

TEST_F(Layout, EveryWorkerDecidesByDefault) {
  const Plan plan = LoadCluster("hosts = [\"h[1-2]\"]");
  EXPECT_TRUE(TaskNamed(plan, "worker:0").decides);
  EXPECT_TRUE(TaskNamed(plan, "master:0").decides);
  EXPECT_FALSE(TaskNamed(plan, "ps:0").decides);
}

TEST_F(Layout, TheChiefAloneDecidesWhenTheFileSaysSo) {
  const Plan plan = Load(
      "name = \"n\"\ndone = \"chief\"\n[cluster]\nhosts = [\"h[1-2]\"]\n[task]\ncommand = [\"a\"]");
  EXPECT_TRUE(TaskNamed(plan, "master:0").decides);
  EXPECT_FALSE(TaskNamed(plan, "worker:0").decides);
}

// As of a TFJob: its workers wait for the chief that has ended, or a little for their own last step.
TEST_F(Layout, AChiefAmongTheRolesDecidesByDefaultAndTheRestHasSomeTime) {
  for (const std::string chief : {"chief", "master"}) {
    const std::string text =
        "[cluster]\nlayout = \"roles\"\n[task]\ncommand = [\"a\"]\n[roles." + chief +
        "]\nhosts = [\"h1\"]\n[roles.worker]\nhosts = [\"h2\"]\n[roles.ps]\nhosts = [\"h1\"]\n";
    const Plan plan = Load("name = \"n\"\n" + text);
    EXPECT_TRUE(TaskNamed(plan, chief + ":0").decides);
    EXPECT_FALSE(TaskNamed(plan, "worker:0").decides);
    EXPECT_EQ(DescribeJob(plan, "id").rest_timeout_ms, 30'000);
    const Plan all = Load("name = \"n\"\ndone = \"all-workers\"\n" + text);
    EXPECT_TRUE(TaskNamed(all, "worker:0").decides);
    EXPECT_EQ(DescribeJob(all, "id").rest_timeout_ms, 0);
    const Plan at_once = Load("name = \"n\"\ndone = \"chief\"\n" + text);
    EXPECT_EQ(DescribeJob(at_once, "id").rest_timeout_ms, 0);
  }
}

TEST_F(Layout, ARoleOfAnyNameMayDecide) {
  const Plan plan = Load(
      "name = \"n\"\ndone = \"driver\"\n[cluster]\nlayout = \"roles\"\n[task]\ncommand = [\"a\"]\n"
      "[roles.driver]\nhosts = [\"h1\"]\n[roles.worker]\nhosts = [\"h2\"]");
  EXPECT_TRUE(TaskNamed(plan, "driver:0").decides);
  EXPECT_FALSE(TaskNamed(plan, "worker:0").decides);
}

TEST_F(Layout, ARoleThatNeverEndsOrIsNotThereCannotDecide) {
  const auto messages = [&](const std::string& done) {
    return Messages("name = \"n\"\ndone = \"" + done +
                    "\"\n[cluster]\nhosts = [\"h1\", \"h2\"]\n[task]\ncommand = [\"a\"]");
  };
  EXPECT_THAT(messages("ps"),
              ElementsAre(HasSubstr("done: a task of type ps runs until it is ended")));
  EXPECT_THAT(messages("wroker"), ElementsAre(HasSubstr("a role of the job, got 'wroker'")));
  EXPECT_THAT(messages("worker"), testing::IsEmpty());
}

TEST_F(Layout, PoliciesFollowTheTaskType) {
  const Plan plan = LoadCluster(R"(hosts = ["h[1-2]"]
[restart]
worker = { limit = 7, backoff = "500ms" }
ps = "task"
)");
  EXPECT_EQ(TaskNamed(plan, "master:0").restart.policy, protocol::RestartPolicy::kGang);
  EXPECT_EQ(TaskNamed(plan, "master:0").restart.limit, 3);
  EXPECT_EQ(TaskNamed(plan, "worker:0").restart.policy, protocol::RestartPolicy::kTask);
  EXPECT_EQ(TaskNamed(plan, "worker:0").restart.limit, 7);
  EXPECT_EQ(TaskNamed(plan, "worker:0").restart.backoff_ms, 500);
  EXPECT_EQ(TaskNamed(plan, "ps:1").restart.policy, protocol::RestartPolicy::kTask);
}

TEST_F(Layout, RolesOverrideTheTaskTable) {
  const Plan plan = LoadCluster(R"(hosts = ["h1"]
[roles.ps]
output = "separate"
grace = "1m"
log_limit = "1MiB"
cwd = "/srv/{task}"
)");
  EXPECT_FALSE(TaskNamed(plan, "ps:0").merged_output);
  EXPECT_EQ(TaskNamed(plan, "ps:0").grace_ms, 60'000);
  EXPECT_EQ(TaskNamed(plan, "ps:0").log_limit_bytes, 1 << 20);
  EXPECT_EQ(TaskNamed(plan, "ps:0").cwd, protocol::Text("/srv/ps:0"));
  EXPECT_TRUE(TaskNamed(plan, "master:0").cwd.parts.empty());
  EXPECT_TRUE(TaskNamed(plan, "master:0").merged_output);
  EXPECT_EQ(TaskNamed(plan, "master:0").log_limit_bytes, 1 << 30);
}

TEST_F(Layout, AVariableOfTheHostSaysWhereTasksStart) {
  const Plan plan = Load(R"(name = "n"
[cluster]
hosts = ["h1"]
[task]
command = ["a"]
cwd = "{env:SCRATCH}/project"
)");
  EXPECT_FALSE(TaskNamed(plan, "ps:0").cwd.parts.empty());
}

TEST_F(Layout, AServerForProgramsThatStartNone) {
  const Plan plan = Load(R"(name = "n"
[cluster]
hosts = ["h1"]
[task]
command = ["~/venv/bin/python", "train.py"]
[roles.ps]
command = ["{tensorflow_server}"]
)");
  const auto& argv = TaskNamed(plan, "ps:0").argv;
  ASSERT_EQ(argv.size(), 3U);
  EXPECT_EQ(argv[0], TaskNamed(plan, "master:0").argv[0]);
  EXPECT_EQ(argv[1], protocol::Text("-c"));
}

TEST_F(Layout, PoliciesMayBeSaidAsInATfJob) {
  const Plan plan = LoadCluster(R"(hosts = ["h1", "h2"]
[restart]
master = "Never"
ps = { policy = "ExitCode", limit = 2 }
worker = "OnFailure"
)");
  EXPECT_EQ(TaskNamed(plan, "master:0").restart.policy, protocol::RestartPolicy::kNever);
  EXPECT_EQ(TaskNamed(plan, "ps:0").restart.policy, protocol::RestartPolicy::kExitCode);
  EXPECT_EQ(TaskNamed(plan, "worker:0").restart.policy, protocol::RestartPolicy::kTask);
}

TEST_F(Layout, AJobHashTellsWhetherTwoPlansMeanTheSame) {
  const std::string same = "hosts = [\"h[1-2]\"]";
  const std::string hash = HashOf(LoadCluster(same));
  EXPECT_EQ(hash, HashOf(LoadCluster("hosts = [\"h1\", \"h2\"] # in other words")));
  EXPECT_NE(hash, HashOf(LoadCluster("hosts = [\"h[2-3]\"]")));
  EXPECT_NE(hash, HashOf(LoadCluster(same + "\nports = { ps = 3000 }")));
  EXPECT_NE(hash, HashOf(LoadCluster(same + "\n[restart]\nps = \"task\"")));
  EXPECT_NE(hash, HashOf(LoadCluster(same + "\n[roles.ps]\nenv = { A = \"1\" }")));
  const protocol::JobPlan job = DescribeJob(LoadCluster(same), "digits-20260101T000000Z-abcdef");
  EXPECT_EQ(job.plan_sha256, hash);
  EXPECT_EQ(job.job, "digits-20260101T000000Z-abcdef");
}

TEST_F(Layout, FourThousandHostsArePlannedButNotOneMore) {
  const Plan plan = LoadCluster("layout = \"mirrored\"\nhosts = [\"10.0.[0-15].[0-255]\"]");
  EXPECT_EQ(plan.hosts.size(), 4096U);
  EXPECT_THAT(ClusterMessages("hosts = [\"10.0.[0-16].[0-255]\"]"),
              ElementsAre("cluster.hosts[0]: more than 4096 hosts"));
}

TEST_F(Layout, ATfConfigThatLinuxWouldNotTakeIsAnError) {
  EXPECT_THAT(ClusterMessages("hosts = [\"host-with-a-long-name-[0001-4096]\"]"),
              ElementsAre(HasSubstr("Linux takes 131072 in one variable")));
}

}  // namespace
}  // namespace tfdist::cli
