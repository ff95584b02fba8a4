// The command line of a task's container.
#include "agent/container/container_run.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "agent/container/gpu_support.h"
#include "base/error.h"
#include "base/file.h"
#include "base/testing/temporary_folder.h"

namespace tfdist::agent {
namespace {

using protocol::EngineKind;
using testing::Contains;
using testing::ElementsAre;
using testing::Not;

Engine EngineOf(EngineKind kind, bool is_rootless = false) {
  return {.kind = kind, .version = "1", .is_rootless = is_rootless, .keeps_groups = false};
}

ContainerRun RunWith(std::vector<std::string> env) {
  ContainerRun run;
  run.name = "tfdist-j-h0-worker-0";
  run.job = "j";
  run.task = "worker:0";
  run.container.image = "train:3";
  run.cwd = "/work";
  run.env = std::move(env);
  run.words = {"python3", "train.py"};
  return run;
}

std::vector<std::string> ArgvOf(const ContainerRun& run, const Engine& engine) {
  return CommandFor(run, engine);
}

// What follows `option`, each time that it is there.
std::vector<std::string> ValuesOf(const std::vector<std::string>& argv, std::string_view option) {
  std::vector<std::string> values;
  for (size_t at = 0; at + 1 < argv.size(); ++at) {
    if (argv[at] == option) values.push_back(argv[at + 1]);
  }
  return values;
}

TEST(ContainerCommand, EndsWithImageAndCommand) {
  auto run = RunWith({});
  const auto argv = ArgvOf(run, EngineOf(EngineKind::kDocker));
  EXPECT_EQ((std::vector<std::string>(argv.end() - 3, argv.end())),
            (std::vector<std::string>{"train:3", "python3", "train.py"}));
  EXPECT_THAT(ValuesOf(argv, "--entrypoint"), ElementsAre());
  run.container.entrypoint = "";
  EXPECT_THAT(ValuesOf(ArgvOf(run, EngineOf(EngineKind::kDocker)), "--entrypoint"),
              ElementsAre(""));
}

TEST(ContainerCommand, HandsTheTasksVariablesToNoClient) {
  auto run = RunWith({"DOCKER_HOST=tcp://other", "EMPTY=", "KEY= a \"b\" $c", "LD_PRELOAD=x"});
  run.env_file = "/run/env";
  const auto argv = ArgvOf(run, EngineOf(EngineKind::kDocker));
  EXPECT_THAT(ValuesOf(argv, "--env-file"), ElementsAre("/run/env"));
  EXPECT_THAT(ValuesOf(argv, "--env"), ElementsAre());
  const ContainerEnv env = EnvOfContainer(run);
  EXPECT_EQ(env.file, "DOCKER_HOST=tcp://other\nEMPTY=\nKEY= a \"b\" $c\nLD_PRELOAD=x\n");
  EXPECT_THAT(env.of_client, ElementsAre());
}

TEST(ContainerCommand, HandsWhatNoFileCanHoldToTheClient) {
  const auto run = RunWith({"LINES=a\nb", "BYTES=\xff", "QUOTED=\"a\"", "f%%=() { :; }",
                            "LONG=" + std::string(100'000, 'x')});
  EXPECT_THAT(ValuesOf(ArgvOf(run, EngineOf(EngineKind::kDocker)), "--env"),
              ElementsAre("LINES", "BYTES", "QUOTED", "f%%", "LONG"));
  EXPECT_EQ(EnvOfContainer(run).of_client, run.env);
  EXPECT_EQ(EnvOfContainer(run).file, "");
}

TEST(ContainerCommand, RefusesAValueThatOnlyTheClientCouldTakeAndWouldHeed) {
  for (const char* entry : {"DOCKER_CONFIG=a\nb", "XDG_RUNTIME_DIR=\xff", "https_proxy='x'"}) {
    EXPECT_THROW((void)EnvOfContainer(RunWith({entry})), Error) << entry;
  }
}

TEST(ContainerCommand, GivesExactlyThePlannedGpus) {
  const auto run = RunWith({"CUDA_VISIBLE_DEVICES=2,GPU-6d2b"});
  const auto docker = ArgvOf(run, EngineOf(EngineKind::kDocker));
  EXPECT_THAT(ValuesOf(docker, "--gpus"), ElementsAre("\"device=2,GPU-6d2b\""));
  EXPECT_EQ(EnvOfContainer(run).file, "");
  EXPECT_THAT(ValuesOf(ArgvOf(run, EngineOf(EngineKind::kPodman)), "--device"),
              ElementsAre("nvidia.com/gpu=2", "nvidia.com/gpu=GPU-6d2b"));
}

TEST(ContainerCommand, GivesNoGpuToATaskThatIsToSeeNone) {
  const auto argv = ArgvOf(RunWith({"CUDA_VISIBLE_DEVICES="}), EngineOf(EngineKind::kDocker));
  EXPECT_THAT(argv, Not(Contains("--gpus")));
  EXPECT_EQ(EnvOfContainer(RunWith({"CUDA_VISIBLE_DEVICES="})).file, "CUDA_VISIBLE_DEVICES=\n");
}

TEST(ContainerCommand, RunsAsTheAccount) {
  const auto own = std::to_string(geteuid()) + ":" + std::to_string(getegid());
  EXPECT_THAT(ValuesOf(ArgvOf(RunWith({}), EngineOf(EngineKind::kDocker)), "--user"),
              ElementsAre(own));
  EXPECT_THAT(ValuesOf(ArgvOf(RunWith({}), EngineOf(EngineKind::kPodman, true)), "--user"),
              ElementsAre("0:0"));
}

TEST(ContainerCommand, HasTheAccountsGroups) {
  std::vector<gid_t> groups(static_cast<size_t>(getgroups(0, nullptr)));
  groups.resize(static_cast<size_t>(getgroups(static_cast<int>(groups.size()), groups.data())));
  std::vector<std::string> numbers;
  for (const gid_t group : groups) {
    if (group != getegid()) numbers.push_back(std::to_string(group));
  }
  EXPECT_EQ(ValuesOf(ArgvOf(RunWith({}), EngineOf(EngineKind::kDocker)), "--group-add"), numbers);
  Engine rootless = EngineOf(EngineKind::kPodman, true);
  EXPECT_THAT(ValuesOf(ArgvOf(RunWith({}), rootless), "--group-add"), ElementsAre());
  rootless.keeps_groups = true;  // its runtime is crun
  EXPECT_THAT(ValuesOf(ArgvOf(RunWith({}), rootless), "--group-add"), ElementsAre("keep-groups"));
}

TEST(ContainerCommand, MountsEachPathByItself) {
  auto run = RunWith({});
  run.seen = {{"/base/work", false}, {"/base/runtime", true}};
  run.container.mounts = {{"/data/set", "/data", true}};
  EXPECT_THAT(ValuesOf(ArgvOf(run, EngineOf(EngineKind::kDocker)), "--mount"),
              ElementsAre("type=bind,source=/base/work,target=/base/work",
                          "type=bind,source=/base/runtime,target=/base/runtime,readonly",
                          "type=bind,source=/data/set,target=/data,readonly"));
}

TEST(ContainerCommand, OfATrialRunsTheProgramAndGoesWithIt) {
  const auto argv = TrialFor(RunWith({}), EngineOf(EngineKind::kPodman), "/base/agent");
  EXPECT_THAT(argv, Contains("--rm"));
  EXPECT_THAT(ValuesOf(argv, "--entrypoint"), ElementsAre("/base/agent"));
  EXPECT_THAT(ValuesOf(argv, "--mount"),
              ElementsAre("type=bind,source=/base/agent,target=/base/agent,readonly"));
}

TEST(ContainerEngines, AreRememberedAsTheyWereFound) {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("tfdist-engines-" + std::to_string(getpid()));
  const std::vector<Engine> engines = {
      {EngineKind::kDocker, "20.10.24+dfsg1", false, false, "7TRN:IPZB"},
      {EngineKind::kPodman, "4.3.1", true, true, "/home/a b/storage"}};
  RememberEngines(file, engines);
  EXPECT_EQ(RememberedEngines(file), engines);
  ReplaceFile(file, "dock", 0600);
  EXPECT_THROW((void)RememberedEngines(file), Error);
  std::filesystem::remove(file);
  EXPECT_THAT(RememberedEngines(file), ElementsAre());
  EXPECT_EQ(Choose(engines, EngineKind::kAuto).kind, EngineKind::kDocker);
  EXPECT_EQ(Choose(engines, EngineKind::kPodman).version, "4.3.1");
}

TEST(ContainerEngines, SayWhatWentWrongInTheirLastWords) {
  ProgramResult result;
  result.exit_code = 125;
  result.error_output =
      "docker: Error response from daemon: No such image: x\n\nRun 'docker run --help' for more\n";
  EXPECT_EQ(WordsOf(result), "No such image: x");
  result.error_output = "";
  EXPECT_EQ(WordsOf(result), "exit code 125");
}

TEST(GpuSupport, OfDockerIsItsHookAndOfPodmanADescription) {
  const TemporaryFolder root;
  const auto docker = [&] { return GpuSupportTrouble(EngineKind::kDocker, root.path()); };
  const auto podman = [&] { return GpuSupportTrouble(EngineKind::kPodman, root.path()); };
  EXPECT_TRUE(docker());
  EXPECT_TRUE(podman());
  std::filesystem::create_directories(root.path() / "usr/bin");
  std::filesystem::create_directories(root.path() / "etc/cdi");
  std::ofstream(root.path() / "usr/bin/nvidia-container-runtime-hook") << "";
  std::ofstream(root.path() / "etc/cdi/other.yaml") << "kind: other.com/card\n";
  EXPECT_FALSE(docker());
  EXPECT_TRUE(podman());
  std::ofstream(root.path() / "etc/cdi/nvidia.yaml") << "kind: nvidia.com/gpu\n";
  EXPECT_FALSE(podman());
}

}  // namespace
}  // namespace tfdist::agent
