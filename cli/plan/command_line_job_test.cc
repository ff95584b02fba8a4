#include "cli/cluster_file/command_line_job.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "cli/plan/testing/test_files.h"

namespace tfdist::cli {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

CommandLineJob Job(const std::string& hosts) {
  CommandLineJob job;
  job.hosts = {hosts};
  job.command = {"python3", "train.py", "--rank={rank}"};
  return job;
}

std::string ReportOf(const CommandLineJob& job) {
  try {
    (void)PlanCommandLine(job);
    return "no mistake";
  } catch (const PlanErrors& errors) {
    return errors.Report();
  }
}

TEST(CommandLine, EachHostRunsAWorkerUnlessToldOtherwise) {
  const Plan plan = PlanCommandLine(Job("gpu[1-2],[fd00::7]"));
  EXPECT_EQ(plan.name, "train");
  EXPECT_EQ(plan.layout, "mirrored");
  EXPECT_TRUE(plan.file.empty());
  EXPECT_FALSE(plan.workdir);
  EXPECT_THAT(Places(plan),
              ElementsAre("worker:0@gpu1:2222", "worker:1@gpu2:2222", "worker:2@fd00::7:2222"));
  EXPECT_THAT(ArgvOf(plan, "worker:2"), ElementsAre("python3", "train.py", "--rank=2"));
  EXPECT_FALSE(TaskNamed(plan, "worker:0").gpus) << "one task sees all GPUs";
}

TEST(CommandLine, MeansWhatTheFileThatSaysTheSameMeans) {
  CommandLineJob job = Job("gpu1,gpu2");
  job.layout = "uai";
  job.name = "digits";
  EXPECT_THAT(Places(PlanCommandLine(job)), ElementsAre("ps:0@gpu1:2223", "master:0@gpu1:2222",
                                                        "ps:1@gpu2:2223", "worker:0@gpu2:2222"));
}

TEST(CommandLine, SettingsSayWhatNoOptionDoes) {
  CommandLineJob job = Job("gpu1,gpu2");
  job.settings = {"cluster.ports.worker=2300", "task.gpus=0", "restart.host_lost=30s"};
  const Plan plan = PlanCommandLine(job);
  EXPECT_THAT(Places(plan), ElementsAre("worker:0@gpu1:2300", "worker:1@gpu2:2300"));
  EXPECT_EQ(TaskNamed(plan, "worker:0").gpus, std::vector<std::string>());
  EXPECT_EQ(plan.host_lost_ms, 30'000);
  EXPECT_EQ(plan.name, "train");
  job.settings = {"task.grcae=1s"};
  EXPECT_THAT(ReportOf(job), HasSubstr("task.grcae: unknown key"));
  job.settings = {"name=other", "cluster.hosts=[]"};
  EXPECT_THAT(ReportOf(job), HasSubstr("name: with -H it is --name that says it"));
  EXPECT_THAT(ReportOf(job), HasSubstr("cluster.hosts: with -H it is -H that says it"));
  job.settings = {"cluster={hosts=[\"gpu9\"], ports=\"auto\"}", "task={command=[\"true\"]}"};
  EXPECT_THAT(ReportOf(job), HasSubstr("cluster.hosts: with -H it is -H that says it"));
  EXPECT_THAT(ReportOf(job), HasSubstr("task.command: with -H it is what follows -- that says it"));
  job.settings = {"cluster={ports=\"auto\"}"};
  EXPECT_NO_THROW((void)PlanCommandLine(job));
}

TEST(CommandLine, SlotsAreTasksThatShareTheGpus) {
  CommandLineJob job = Job("gpu1,me@gpu2:2");
  job.command.emplace_back("{local_rank}/{world_size}");
  const Plan plan = PlanCommandLine(job);
  EXPECT_THAT(Places(plan),
              ElementsAre("worker:0@gpu1:2222", "worker:1@gpu2:2222", "worker:2@gpu2:2223"));
  EXPECT_FALSE(TaskNamed(plan, "worker:0").gpus);
  EXPECT_EQ(TaskNamed(plan, "worker:2").gpu_share, (protocol::GpuShare{1, 2}));
  EXPECT_EQ(ArgvOf(plan, "worker:1").back(), "0/3");
  EXPECT_EQ(ArgvOf(plan, "worker:2").back(), "1/3");
  EXPECT_EQ(plan.hosts[1].ssh_user, "me");
  EXPECT_FALSE(plan.hosts[1].ssh_port);
}

TEST(CommandLine, TakesEachDestinationThatSshTakes) {
  for (const char* name : {"h1+x", "H1", "h1.", "prod/h1", "h_1", "_h1", "10.1", "1",
                           "fe80::1%eth0", "caf\xc3\xa9", "h1=x", "h1~", "h1%x", "h1#2", "../h1"}) {
    const Plan plan = PlanCommandLine(Job(name));
    EXPECT_EQ(plan.hosts[0].ssh, name);
    EXPECT_EQ(plan.hosts[0].address, name);
    EXPECT_FALSE(plan.hosts[0].local) << name;
  }
}

TEST(CommandLine, TakesAUriOfSsh) {
  const Plan plan = PlanCommandLine(Job("ssh://me@gpu1:2200,ssh://gpu2/,ssh://[fd00::7]:22:2"));
  std::vector<std::string> logins;
  for (const HostPlan& host : plan.hosts) {
    logins.push_back(fmt::format("{}@{}:{}", host.ssh_user, host.ssh, host.ssh_port.value_or(0)));
  }
  EXPECT_THAT(logins, ElementsAre("me@gpu1:2200", "@gpu2:0", "@fd00::7:22", "@fd00::7:22"));
  EXPECT_THAT(ReportOf(Job("ssh://gpu1:x")), HasSubstr("'x' is not SSH's port from 1 to 65535"));
  EXPECT_THAT(ReportOf(Job("ssh://gpu1:22:0")), HasSubstr("'0' is not a number of slots"));
}

TEST(CommandLine, PortOfSshBehindBracketsIsAsked) {
  const std::string said = ReportOf(Job("[fd00::7]:22"));
  EXPECT_THAT(said, HasSubstr("'[fd00::7]:22': 22 slots, or SSH's port?"));
  EXPECT_THAT(said, HasSubstr("SSH's port: ssh://[fd00::7]:22; 22 slots: ssh://[fd00::7]:22:22"));
  EXPECT_NO_THROW((void)PlanCommandLine(Job("[fd00::7]:4")));
}

TEST(CommandLine, APortWhereSlotsStandIsWarnedOf) {
  EXPECT_THAT(PlanCommandLine(Job("gpu1:22")).warnings,
              Contains("gpu1:22 means 22 slots of gpu1, each with its tasks, and no port"));
  EXPECT_THAT(PlanCommandLine(Job("gpu1:2")).warnings, Not(Contains(HasSubstr("slots"))));
}

TEST(CommandLine, MistakesNameTheOption) {
  EXPECT_THAT(ReportOf(Job("gpu 1")), HasSubstr("command line: -H: 'gpu 1' is neither"));
  EXPECT_THAT(ReportOf(Job("gpu1:0")), HasSubstr("-H: 'gpu1:0': '0' is not a number of slots"));
  EXPECT_THAT(ReportOf(Job("me@gpu1:2299")), HasSubstr("SSH's port stands in ~/.ssh/config"));
  EXPECT_THAT(ReportOf(Job("gpu1,,gpu2")), HasSubstr("-H: a host's name is empty"));
  EXPECT_THAT(ReportOf(Job("gpu1,gpu1")), HasSubstr("gpu1 is listed twice"));
  CommandLineJob job = Job("gpu1");
  job.name = "a/b";
  job.workdir = "/no/such/folder";
  EXPECT_THAT(ReportOf(job), HasSubstr("--name: 'a/b' is no job name"));
  EXPECT_THAT(ReportOf(job), HasSubstr("--workdir: there is no folder"));
}

TEST(CommandLine, AJobIsNamedAfterItsProgram) {
  EXPECT_EQ(JobNameOf({"python3", "-u", "dir/train.py", "--x"}), "train");
  EXPECT_EQ(JobNameOf({"python3", "-m", "pkg.train_all"}), "train_all");
  EXPECT_EQ(JobNameOf({"/usr/bin/env"}), "env");
  EXPECT_EQ(JobNameOf({"{runtime}"}), "runtime");
  EXPECT_EQ(JobNameOf({"\xc3\xa9"}), "job");
  EXPECT_EQ(JobNameOf({std::string(300, 'x')}).size(), 40U);
}

}  // namespace
}  // namespace tfdist::cli
