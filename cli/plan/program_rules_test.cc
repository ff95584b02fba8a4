#include "cli/plan/program_rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include <fstream>

#include "cli/plan/container_clients.h"
#include "cli/plan/testing/test_files.h"

namespace tfdist::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class ProgramRules : public PlanTest {
 protected:
  // The mistakes of a job that says which kind of program it runs; `top` stands before any table.
  std::vector<std::string> Of(const std::string& program, const std::string& cluster,
                              const std::string& top = "") const {
    return Messages("name = \"n\"\n" + top + "[task]\ncommand = [\"a\"]\nprogram = \"" + program +
                    "\"\n[cluster]\n" + cluster);
  }
  // A task of each type, on a host of its own.
  static std::string Roles(const std::vector<std::string>& types) {
    std::string text = "layout = \"roles\"\n";
    for (const std::string& type : types) {
      text += fmt::format("[roles.{0}]\nhosts = [\"host-of-{0}\"]\n", type);
    }
    return text;
  }
};

constexpr const char* kUai = "hosts = [\"h1\", \"h2\"]\n";
constexpr const char* kMirrored = "hosts = [\"h1\", \"h2\"]\nlayout = \"mirrored\"\n";
constexpr const char* kChief = "chief_name = \"chief\"\n";
constexpr const char* kDoneByChief = "done = \"chief\"\n";

TEST_F(ProgramRules, AnUnknownKindIsToldTheKnownOnes) {
  EXPECT_THAT(Of("keras", kUai), ElementsAre(HasSubstr("\"parameter-server\" or \"server\"")));
}

TEST_F(ProgramRules, AnEstimatorTakesMasterOrChief) {
  EXPECT_THAT(Of("estimator", kUai), IsEmpty());
  EXPECT_THAT(Of("estimator", std::string(kUai) + kChief + "[roles.evaluator]\nhosts = [\"h2\"]\n"),
              IsEmpty());
}

TEST_F(ProgramRules, AnEstimatorWithoutChiefIsRefused) {
  EXPECT_THAT(Of("estimator", Roles({"ps", "worker"})),
              ElementsAre("task.program: Estimator takes no cluster without a chief"));
  EXPECT_THAT(Of("estimator", kMirrored),
              ElementsAre("task.program: Estimator takes no cluster without a chief"));
}

TEST_F(ProgramRules, AnEstimatorTakesNoTypeOfTheUsersOwn) {
  EXPECT_THAT(Of("estimator", Roles({"chief", "reader"})),
              ElementsAre("roles.reader: Estimator refuses a task type 'reader'"));
}

TEST_F(ProgramRules, MirroredTakesWorkersWithOrWithoutChief) {
  EXPECT_THAT(Of("mirrored", kMirrored), IsEmpty());
  EXPECT_THAT(Of("mirrored", std::string(kMirrored) + kChief), IsEmpty());
}

TEST_F(ProgramRules, MirroredTakesNeitherMasterNorPs) {
  EXPECT_THAT(Of("mirrored", kUai),
              ElementsAre(HasSubstr("MultiWorkerMirroredStrategy refuses a task type \"master\""),
                          HasSubstr("MultiWorkerMirroredStrategy has no ps")));
}

TEST_F(ProgramRules, ParameterServerTakesChiefPsAndWorkers) {
  EXPECT_THAT(Of("parameter-server", Roles({"chief", "ps", "worker", "evaluator"}), kDoneByChief),
              IsEmpty());
  EXPECT_THAT(Of("parameter-server", std::string(kUai) + kChief, kDoneByChief), IsEmpty());
}

TEST_F(ProgramRules, ParameterServerNamesAllThatIsMissing) {
  EXPECT_THAT(
      Of("parameter-server", Roles({"reader"})),
      ElementsAre(HasSubstr("needs at least one ps"), HasSubstr("needs at least one worker"),
                  HasSubstr("needs a chief"), HasSubstr("never end"),
                  HasSubstr("roles.reader: ParameterServerStrategy refuses")));
}

TEST_F(ProgramRules, ParameterServerRefusesAMaster) {
  EXPECT_THAT(Of("parameter-server", kUai, kDoneByChief),
              ElementsAre("cluster: ParameterServerStrategy refuses a task type \"master\""));
}

TEST_F(ProgramRules, AServerHasNoEvaluator) {
  EXPECT_THAT(Of("server", Roles({"ps", "worker", "reader"})), IsEmpty());
  EXPECT_THAT(Of("server", Roles({"worker", "evaluator"})),
              ElementsAre(HasSubstr("roles.evaluator: an evaluator is not in the cluster spec")));
}

class TypeNames : public PlanTest {
 protected:
  std::vector<std::string> Of(const std::string& type) const {
    return ClusterMessages("layout = \"roles\"\n[roles." + type +
                           "]\nhosts = [\"h1\"]\n[roles.worker]\nhosts = [\"h2\"]");
  }
};

TEST_F(TypeNames, AnotherCaseOrOneLetterIsASlip) {
  for (const char* type : {"MASTER", "Chief", "PS", "workers", "wroker", "evaluato"}) {
    EXPECT_THAT(Of(type), ElementsAre(HasSubstr("but looks like it"))) << type;
  }
}

TEST_F(TypeNames, ATypeOfTheUsersOwnIsFine) {
  for (const char* type : {"reader", "driver", "pss", "local", "working"}) {
    EXPECT_THAT(Of(type), IsEmpty()) << type;
  }
}

TEST_F(TypeNames, APsInTheLayoutMirroredIsRefused) {
  EXPECT_THAT(ClusterMessages(std::string(kMirrored) + "[roles.ps]\ncount = 1"),
              ElementsAre(HasSubstr("has no ps: the workers hold the variables")));
}

class ContainerClients : public PlanTest {
 protected:
  std::vector<std::string> Of(const std::string& command) const {
    return ContainerClientsOf(
        Load("name = \"n\"\n[task]\ncommand = " + command + "\n[cluster]\nhosts = [\"h1\"]\n"));
  }
};

TEST_F(ContainerClients, AreKnownByTheProgram) {
  EXPECT_THAT(Of("[\"docker\", \"run\", \"image\"]"), ElementsAre("docker"));
  EXPECT_THAT(Of("[\"/usr/bin/nerdctl\", \"run\", \"image\"]"), ElementsAre("nerdctl"));
  EXPECT_THAT(Of("[\"sudo\", \"-n\", \"docker\", \"run\", \"image\"]"), ElementsAre("docker"));
  EXPECT_THAT(Of("[\"docker-compose\", \"up\"]"), ElementsAre("docker-compose"));
  EXPECT_THAT(Of("[\"systemd-run\", \"--user\", \"train\"]"), ElementsAre("systemd-run"));
  EXPECT_THAT(Of("[\"podman\", \"run\", \"docker\"]"), IsEmpty());
  EXPECT_THAT(Of("[\"python3\", \"docker\"]"), IsEmpty());
}

TEST_F(ContainerClients, OfOtherDaemonsAreKnown) {
  const std::pair<const char*, const char*> lines[] = {
      {"systemd-run --user train", "systemd-run"},
      {"systemd-run --user --scope train", ""},
      {"tmux new -d train", "tmux"},
      {"tmux -L mine new-session -d -s x train", "tmux"},
      {"tmux -L mine neww -d train", "tmux"},
      {"tmux split-window -d train", "tmux"},
      {"tmux send-keys -t x train Enter", "tmux"},
      {"tmux run-shell -b train", "tmux"},
      {"tmux ls", ""},
      {"tmux kill-session -t x", ""},
      {"screen -S x -X screen train", "screen"},
      {"screen -S x -X quit", ""},
      {"nvidia-docker run x", "nvidia-docker"},
      {"nvidia-docker ps", ""},
      {"echo train | at 23:00", "at"},
      {"echo train | at midnight", "at"},
      {"crontab jobs", "crontab"},
      {"crontab -l", ""},
      {"salloc -N 2 train", "salloc"},
      {"flux run train", "flux"},
      {"condor_submit train.sub", "condor_submit"},
      {"rsh h2 train", "rsh"},
      {"systemctl --user enable --now train", "systemctl"},
      {"kubectl -n ml scale deployment/train --replicas=2", "kubectl"},
      {"helm install train ./chart", "helm"},
      {"helm list", ""},
      {"screen -dmS x train", "screen"},
      {"screen -d -m train", "screen"},
      {"screen -Dm train", ""},
      {"screen -ls", ""},
      {"at now + 1 minute", "at"},
      {"echo look at this", ""},
      {"systemctl --user start train", "systemctl"},
      {"systemctl status", ""},
      {"apptainer instance start x.sif train", "apptainer"},
      {"singularity instance start x.sif train", "singularity"},
      {"apptainer exec x.sif train", ""},
      {"kubectl -n ml apply -f job.yaml", "kubectl"},
      {"kubectl run train --image x", "kubectl"},
      {"kubectl get pods", ""},
      {"sbatch train.sh", "sbatch"},
      {"srun -N 2 train", "srun"},
      {"podman --remote run x", "podman"},
      {"podman --url ssh://h2/run/podman.sock run x", "podman"},
      {"podman --url=unix:///run/x.sock run x", "podman"},
      {"podman run -c 5 x", ""},
      {"podman run x train --remote", ""},
      {"ssh h2 train", "ssh"},
      {"ssh -p 2222 me@h2 cd x; train", "ssh"},
      {"ssh -V", ""},
      {"deepspeed --launcher ssh train.py", ""},
      {"rsync -e ssh h2:data data", ""},
      {"lxc exec c1 -- train", "lxc"},
      {"lxc list", ""},
      {"machinectl shell c1 /bin/train", "machinectl"},
      {"docker -H ssh://h2 run x", "docker"},
      {"kubectl exec pod -- train", "kubectl"},
      {"ray job submit -- python3 train.py", "ray"},
      {"ray status", ""},
  };
  for (const auto& [line, client] : lines) {
    const auto found = Of(fmt::format(R"(["sh", "-c", "{}"])", line));
    EXPECT_EQ(fmt::format("{}", fmt::join(found, " ")), client) << line;
    if (*client == '\0') continue;
    EXPECT_THAT(UnseenWorkOf(client), HasSubstr(" on the hosts shows it")) << line;
  }
}

TEST_F(ContainerClients, AreKnownInWhatAShellIsGiven) {
  EXPECT_THAT(Of(R"(["docker", "--log-level", "debug", "--context", "lab", "run", "image"])"),
              ElementsAre("docker"));
  EXPECT_THAT(Of(R"(["sh", "-c", "cd /data && exec docker -H tcp://h:1 run image"])"),
              ElementsAre("docker"));
  EXPECT_THAT(Of(R"(["bash", "-lc", "ID=$(docker create image); sleep 1"])"),
              ElementsAre("docker"));
  EXPECT_THAT(Of(R"(["sh", "-c", "docker info; python3 run"])"), IsEmpty());
}

TEST_F(ContainerClients, AreKnownInScriptsOfTheWorkdir) {
  std::ofstream(folder() / "work/train.sh") << "#!/bin/sh\nset -e\ndocker run image\n";
  std::ofstream(folder() / "work/other.sh") << "#!/bin/sh\n# docker run image\ntrain\n";
  const std::string workdir = "\nworkdir = \"work\"";
  EXPECT_THAT(Of(R"(["./train.sh"])" + workdir), ElementsAre("docker"));
  EXPECT_THAT(Of(R"(["bash", "train.sh"])" + workdir), ElementsAre("docker"));
  EXPECT_THAT(Of(R"(["./other.sh"])" + workdir), IsEmpty());
}

TEST_F(ContainerClients, AreKnownInScriptsThatOtherScriptsCall) {
  std::filesystem::create_directory(folder() / "work/bin");
  std::ofstream(folder() / "work/a.sh") << "#!/bin/sh\ncat notes\nexec sh bin/b.sh\n";
  std::ofstream(folder() / "work/bin/b.sh") << "\"$(dirname \"$0\")/c\" a.sh\n";
  std::ofstream(folder() / "work/bin/c") << "#!/bin/sh\ndocker run image\n";
  std::ofstream(folder() / "work/notes") << "docker run image works, too\n";
  std::ofstream(folder() / "work/d.sh") << "#!/bin/sh\ncat notes; sh d.sh\n";
  const std::string workdir = "\nworkdir = \"work\"";
  EXPECT_THAT(Of(R"(["sh", "a.sh"])" + workdir), ElementsAre("docker"));
  EXPECT_THAT(Of(R"(["sh", "d.sh"])" + workdir), IsEmpty());
}

TEST_F(ContainerClients, AreNotSeenInWordsOfPython) {
  std::ofstream(folder() / "work/train.py")
      << "for batch in data:\n  print(f'loss at 10 steps: {step(batch)}')\n";
  std::ofstream(folder() / "work/run") << "#!/usr/bin/env python3\nos.system('docker run image')\n";
  std::ofstream(folder() / "work/run.sh") << "echo train | batch\n";
  const std::string workdir = "\nworkdir = \"work\"";
  EXPECT_THAT(Of(R"(["python3", "train.py"])" + workdir), IsEmpty());
  EXPECT_THAT(Of(R"(["./run"])" + workdir), ElementsAre("docker"));
  EXPECT_THAT(Of(R"(["sh", "run.sh"])" + workdir), ElementsAre("batch"));
}

TEST(TfConfigOfTheUser, IsWarnedOf) {
  EXPECT_EQ(WarningOfTfConfig(nullptr), "");
  EXPECT_THAT(WarningOfTfConfig("{}"), HasSubstr("TF_CONFIG is set in your environment"));
}

}  // namespace
}  // namespace tfdist::cli
