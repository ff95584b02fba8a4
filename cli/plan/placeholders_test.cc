#include <fmt/format.h>
#include <gmock/gmock.h>

#include "cli/plan/testing/test_files.h"

namespace tfdist::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class PlaceholdersIn : public PlanTest {
 protected:
  static std::string File(const std::string& argument) {
    return "name = \"digits\"\n[cluster]\nhosts = [\"10.0.0.1\", \"fd00::2\"]\n[task]\nworkdir = "
           "\"work\"\nshared = \"/mnt/out\"\ncommand = [\"a\", '''" +
           argument + "''']";
  }
  std::string Expand(const std::string& argument, const std::string& task = "worker:0") const {
    const auto argv = ArgvOf(Load(File(argument)), task);
    return argv.size() == 2 ? argv[1] : "(no argument)";
  }
};

TEST_F(PlaceholdersIn, AnArgumentAreFilledIn) {
  EXPECT_EQ(Expand("{job} {task} {task_type} {task_index}"), "digits worker:0 worker 0");
  EXPECT_EQ(Expand("{host} {port} {address}"), "fd00::2 2222 [fd00::2]:2222");
  EXPECT_EQ(Expand("--ps_hosts={ps_hosts}"), "--ps_hosts=10.0.0.1:2223,[fd00::2]:2223");
  EXPECT_EQ(Expand("{worker_hosts};{master_hosts}"), "[fd00::2]:2222;10.0.0.1:2222");
  EXPECT_EQ(Expand("{shared}/{task_index}"), "/mnt/out/0");
  EXPECT_EQ(Expand("{worker:0.host} {ps:1.address} {master:0.port}"),
            "fd00::2 [fd00::2]:2223 2222");
}

TEST_F(PlaceholdersIn, FurtherPortsHaveNames) {
  const std::string file = R"(name = "dask"
[cluster]
hosts = ["h1"]
layout = "roles"
[task]
command = ["dask", "{port.board}", "{scheduler:0.port.board}"]
[roles.scheduler]
count = 1
hosts = ["h1"]
more_ports = { board = 8787 }
[roles.worker]
per_host = 2
more_ports = { board = 8787, nanny = "auto" }
)";
  EXPECT_THAT(Messages(file), ElementsAre(HasSubstr("port 8787 of h1 would go to both "
                                                    "scheduler.board and worker.board")));
  std::string good = file;
  good.replace(good.rfind("8787"), 4, "8800");
  const Plan plan = Load(good);
  EXPECT_EQ(ArgvOf(plan, "worker:1"), (std::vector<std::string>{"dask", "8801", "8787"}));
  EXPECT_EQ(TaskNamed(plan, "worker:0").more_ports.at("nanny") + 1,
            TaskNamed(plan, "worker:1").more_ports.at("nanny"));
  EXPECT_THAT(Messages(R"(name = "n"
[cluster]
hosts = ["h1"]
[task]
command = ["a", "{port.x}"]
)"),
              testing::Contains(HasSubstr("{port.x} names a port that master:0 does not have")));
}

TEST_F(PlaceholdersIn, RanksAreFilledIn) {
  EXPECT_EQ(Expand("{rank}/{world_size} {local_rank} {worker_count}"), "1/4 0 2");
  EXPECT_EQ(Expand("{rank}/{world_size} {local_rank} {worker_count}", "ps:1"), "3/4 1 2");
}

TEST_F(PlaceholdersIn, AnEvaluatorHasNoRank) {
  EXPECT_THAT(ClusterMessages("hosts = [\"h[1-2]\"]\nchief_name = \"chief\"\n[roles.evaluator]\n"
                              "hosts = [\"h1\"]\nenv = { A = \"{rank}\" }"),
              ElementsAre(HasSubstr("evaluator:0 is not in the cluster spec, so it has no rank")));
}

TEST_F(PlaceholdersIn, VariablesOfAShellAreLeftAlone) {
  EXPECT_EQ(Expand("--lr=${LR} ${task} $${task} x{task}"), "--lr=${LR} ${task} $${task} xworker:0");
  EXPECT_EQ(Expand("${{task}"), "${task}");
}

TEST_F(PlaceholdersIn, AListOfTenAndMoreGoesByIndex) {
  const Plan plan = LoadCluster("hosts = [\"h[1-11]\"]\n[roles.ps]\nenv = { A = \"{ps_hosts}\" }");
  const std::string hosts = EnvOf(plan, "ps:0", "A");
  EXPECT_THAT(hosts, testing::StartsWith("h1:2223,h2:2223,"));
  EXPECT_THAT(hosts, testing::EndsWith(",h10:2223,h11:2223"));
}

TEST_F(PlaceholdersIn, PathsOfTheHostAreLeftToIt) {
  EXPECT_EQ(Expand("{workdir}/x"), std::string(protocol::kWorkdirPath) + "/x");
  EXPECT_EQ(Expand("{runtime}"), protocol::kRuntimePath);
  EXPECT_EQ(Expand("{keep}/x"), std::string(protocol::kKeepPath) + "/x");
}

TEST_F(PlaceholdersIn, AVirtualEnvironmentComesFirstInThePath) {
  const auto file = [](const std::string& task) {
    return "name = \"n\"\n[cluster]\nhosts = [\"h1\"]\n[task]\ncommand = [\"python\"]\n" + task;
  };
  const Plan plan = Load(
      file("venv = \"/opt/tf\"\nenv = { PATH = \"/cuda/bin\" }\n[roles.ps]\nvenv = \"/opt/ps\""));
  EXPECT_EQ(EnvOf(plan, "master:0", "PATH"), "/opt/tf/bin:/cuda/bin");
  EXPECT_EQ(EnvOf(plan, "master:0", "VIRTUAL_ENV"), "/opt/tf");
  EXPECT_EQ(EnvOf(plan, "ps:0", "PATH"), "/opt/ps/bin:/cuda/bin");
  EXPECT_THAT(Messages(file("venv = \".venv\"")),
              ElementsAre(HasSubstr("is no path of the hosts")));
}

TEST_F(PlaceholdersIn, ACondaEnvironmentIsFoundByTheHost) {
  const auto file = [](const std::string& task) {
    return "name = \"n\"\n[cluster]\nhosts = [\"h1\"]\n[task]\ncommand = [\"python\"]\n" + task;
  };
  const Plan plan = Load(file("conda = \"tf\"\n[roles.ps]\nvenv = \"/opt/ps\""));
  EXPECT_EQ(TaskNamed(plan, "master:0").conda, protocol::Text("tf"));
  EXPECT_EQ(EnvOf(plan, "ps:0", "VIRTUAL_ENV"), "/opt/ps");
  EXPECT_TRUE(TaskNamed(plan, "ps:0").conda.parts.empty());
  EXPECT_THAT(Messages(file("conda = \"tf\"\nvenv = \"/opt/x\"")),
              ElementsAre(HasSubstr("is not possible beside venv")));
  EXPECT_THAT(Messages(file("conda = \"envs/tf\"")),
              ElementsAre(HasSubstr("is no path of the hosts")));
}

TEST_F(PlaceholdersIn, ASetUpIsNoTask) {
  const auto file = [](const std::string& set_up, const std::string& task = "") {
    return "name = \"n\"\n[cluster]\nhosts = [\"h1\"]\n[task]\ncommand = [\"{setup}/bin/x\"]\n" +
           task + "[setup]\n" + set_up;
  };
  const Plan plan = Load(file("command = [\"make\", \"{job} {setup}/x\"]\ntimeout = \"2h\"",
                              "env = { A = \"{rank}\", B = \"{setup}/b\" }\n"));
  const std::string path(protocol::kSetUpPath);
  EXPECT_EQ(ArgvOf(plan, "master:0")[0], path + "/bin/x");
  EXPECT_EQ(plan.set_up->argv[1], protocol::Text("n " + path + "/x"));
  EXPECT_EQ(plan.set_up->timeout_ms, 7'200'000);
  std::vector<std::string> names;
  for (const auto& [name, value] : plan.set_up->env) names.push_back(name);
  EXPECT_THAT(names, ElementsAre("B", "PYTHONUNBUFFERED"));
  EXPECT_THAT(Messages(file("command = [\"make\", \"{rank}\"]")),
              ElementsAre(HasSubstr("{rank} stands for nothing here")));
  EXPECT_THAT(Messages(file("command = [\"make\"]\ninputs = [\"../x\", \"/y\", \"z\"]")),
              ElementsAre(HasSubstr("got '../x'"), HasSubstr("got '/y'"),
                          HasSubstr("[task] has no workdir")));
  EXPECT_THAT(Messages(file("inputs = []")), ElementsAre(HasSubstr("says no command")));
  EXPECT_THAT(Messages(file("command = [\"make\"]\ntimeout = \"0s\"")),
              ElementsAre(HasSubstr("expected 1s to 24h")));
}

TEST_F(PlaceholdersIn, MachinesAndTheirTasksAreCounted) {
  const Plan plan = Load(
      "name = \"n\"\n[cluster]\nhosts = [{ address = \"h1\", slots = 2 }, \"h2\"]\n"
      "layout = \"mirrored\"\n[task]\ncommand = [\"{node_rank}/{node_count}\", "
      "\"{local_rank}/{local_world_size}\", \"{worker_hostnames}\"]\n");
  EXPECT_EQ(ArgvOf(plan, "worker:0")[0], "0/2");
  EXPECT_EQ(ArgvOf(plan, "worker:1")[0], "0/2");
  EXPECT_EQ(ArgvOf(plan, "worker:2")[0], "1/2");
  EXPECT_EQ(ArgvOf(plan, "worker:1")[1], "1/2");
  EXPECT_EQ(ArgvOf(plan, "worker:2")[1], "0/1");
  const std::vector<std::string> addresses = {"h1", "h1", "h2"};
  const protocol::Filling filling{addresses, plan.common, {}};
  EXPECT_EQ(protocol::Fill(TaskNamed(plan, "worker:0").argv[2], filling), "h1,h1,h2");
}

TEST_F(PlaceholdersIn, OtherBracesAreThemselves) {
  EXPECT_EQ(Expand("{{task}"), "{task}");
  EXPECT_EQ(Expand("{{{task}"), "{worker:0");
  EXPECT_EQ(Expand(R"({"a": {"b": [1]}} {} {0} {a b} {a-b} } {)"),
            R"({"a": {"b": [1]}} {} {0} {a b} {a-b} } {)");
}

TEST_F(PlaceholdersIn, AnythingElseArrivesAsItIs) {
  const std::string odd = "$(reboot) `x` \"q\" \\n *? \xE2\x9C\x93 \xF0\x9F\x99\x82";
  EXPECT_EQ(Expand(odd), odd);
}

TEST_F(PlaceholdersIn, UnknownWordsAreErrorsWithTheNearest) {
  const auto problems = Problems(File("{task_indx} {nonsense_word} {x}"));
  ASSERT_EQ(problems.size(), 3U);
  EXPECT_EQ(problems[0].key, "task.command[1]");
  EXPECT_EQ(problems[0].line, 7);
  EXPECT_EQ(problems[0].message, "{task_indx} is no placeholder");
  EXPECT_EQ(problems[0].hint,
            "did you mean '{task_index}'? for the text itself, write {{task_indx}");
  EXPECT_EQ(problems[1].hint, "for the text itself, write {{nonsense_word}");
}

TEST_F(PlaceholdersIn, AKnownWordInAnotherStyleIsMeant) {
  const std::pair<const char*, const char*> words[] = {
      {"RANK", "rank"},     {"Index", "task_index"},     {"taskname", "task"},
      {"job_name", "job"},  {"WorldSize", "world_size"}, {"taskId", "task"},
      {"HOSTNAME", "host"}, {"TASK_TYPE", "task_type"},  {"localrank", "local_rank"}};
  for (const auto& [word, meant] : words) {
    const auto problems = Problems(File(fmt::format("{{{}}}", word)));
    ASSERT_EQ(problems.size(), 1U) << word;
    EXPECT_THAT(problems[0].hint, HasSubstr(fmt::format("did you mean '{{{}}}'?", meant)));
  }
}

TEST_F(PlaceholdersIn, ATaskThatIsNotThereIsAnError) {
  EXPECT_THAT(Messages(File("{worker:9.host} {worker:0} {worker:0.name} {worker.host}")),
              ElementsAre(HasSubstr("{worker:9.host} names a task that the job does not have"),
                          HasSubstr("{worker:0} is no placeholder"),
                          HasSubstr("{worker:0.name} is no placeholder"),
                          HasSubstr("{worker.host} is no placeholder")));
}

TEST_F(PlaceholdersIn, WhatWasNotSaidCannotBeFilledIn) {
  EXPECT_THAT(Messages("name = \"n\"\n[cluster]\nhosts = [\"h1\"]\n[task]\ncommand = [\"a\", "
                       "\"{shared}\", \"{workdir}\"]"),
              ElementsAre(HasSubstr("{shared} stands for nothing"),
                          HasSubstr("{workdir} stands for nothing")));
  EXPECT_THAT(
      ClusterMessages("hosts = [\"h1\"]\nchief_name = \"chief\"\n[roles.evaluator]\nhosts = "
                      "[\"h1\"]\ncommand = [\"{port}\"]"),
      ElementsAre(HasSubstr("evaluator:0 has no port")));
}

TEST_F(PlaceholdersIn, TypesThatTheJobLacksAreEmptyLists) {
  EXPECT_EQ(
      EnvOf(LoadCluster("layout = \"mirrored\"\nhosts = [\"h1\"]\n[roles.worker]\nenv = { A = "
                        "\"<{ps_hosts}>\" }"),
            "worker:0", "A"),
      "<>");
}

TEST_F(PlaceholdersIn, AnArgumentThatLinuxWouldNotTakeIsAnError) {
  EXPECT_THAT(Messages(File(std::string(131072, 'x'))),
              ElementsAre(HasSubstr("Linux takes 131072 in one argument")));
  EXPECT_EQ(Expand(std::string(131071, 'x')).size(), 131071U);
}

}  // namespace
}  // namespace tfdist::cli
