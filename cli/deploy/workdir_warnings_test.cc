#include "cli/deploy/workdir_warnings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/testing/temporary_folder.h"

namespace tfdist::cli {
namespace {

namespace fs = std::filesystem;

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class WorkdirWarningsTest : public testing::Test {
 protected:
  void Write(const std::string& name, const std::string& content = "x") const {
    fs::create_directories((folder() / name).parent_path());
    std::ofstream(folder() / name) << content;
  }
  [[nodiscard]] const fs::path& folder() const { return temporary_.path(); }

  [[nodiscard]] std::vector<WorkdirWarning> Warnings(
      const std::vector<protocol::Text>& command) const {
    Plan plan;
    plan.workdir = folder() / "";  // as -H and workdir = "." give it
    plan.hosts.resize(1);
    plan.tasks.resize(2);
    for (TaskOnHost& task : plan.tasks) {
      task.argv = command;
      task.cwd = cwd_;
    }
    return WarningsOfWorkdir(plan, ListWorkdir(plan));
  }

  [[nodiscard]] std::vector<std::string> Of(const std::vector<protocol::Text>& command) const {
    std::vector<std::string> texts;
    for (const auto& warning : Warnings(command)) texts.push_back(warning.text);
    return texts;
  }

  // Whether the command cannot run.
  [[nodiscard]] bool IsCertain(const std::vector<protocol::Text>& command) const {
    const auto warnings = Warnings(command);
    EXPECT_FALSE(warnings.empty());
    return !warnings.empty() && warnings[0].is_certain;
  }

  protocol::Text cwd_;

 private:
  const TemporaryFolder temporary_;
};

TEST_F(WorkdirWarningsTest, AScriptThatIsNotThereIsNamedOnce) {
  EXPECT_THAT(Of({"python3", "-u", "train.py", "--out", "plot.py"}),
              ElementsAre(HasSubstr("there is no train.py in the workdir")));
  EXPECT_THAT(Of({"./run"}), ElementsAre(HasSubstr("there is no run in the workdir")));
  Write("train.py");
  Write("run");
  EXPECT_THAT(Of({"python3", "./train.py", "--out", "plot.py"}), IsEmpty());
  EXPECT_THAT(Of({"./run"}), IsEmpty());
  EXPECT_THAT(Of({"python3", "/opt/train.py"}), IsEmpty());
  EXPECT_THAT(Of({"sh", "-c", "cd sub && python3 other.py"}), IsEmpty());
}

TEST_F(WorkdirWarningsTest, AScriptIsLookedForWhereTheTaskStarts) {
  Write("mnist/train.py");
  cwd_ = protocol::Text("mnist/");
  EXPECT_THAT(Of({"python3", "train.py"}), IsEmpty());
  EXPECT_THAT(Of({"python3", "../mnist/train.py"}), IsEmpty());
  EXPECT_TRUE(Warnings({"python3", "mnist/train.py"})[0].is_certain);
  EXPECT_THAT(Of({"python3", "mnist/train.py"}),
              ElementsAre(HasSubstr("there is no mnist/mnist/train.py in the workdir")));
  for (const char* none : {"mnits", "mnist/train.py"}) {
    cwd_ = protocol::Text(none);
    EXPECT_THAT(Of({"python3", "-m", "this"}),
                ElementsAre(HasSubstr(std::string("there is no folder ") + none)));
  }
  cwd_ = protocol::Text("/mnt/nfs/project");
  EXPECT_THAT(Of({"python3", "train.py"}), IsEmpty()) << "only the host knows";
}

TEST_F(WorkdirWarningsTest, AnInterpreterCertainlyOpensItsScript) {
  protocol::Text venv;
  venv.parts = {protocol::HostVariable{"HOME"}, "/venv/bin/python"};
  EXPECT_TRUE(IsCertain({"python3", "-u", "train.py"}));
  EXPECT_TRUE(IsCertain({venv, "train.py"}));
  EXPECT_TRUE(IsCertain({"bash", "-x", "sub/run.sh"}));
  EXPECT_TRUE(IsCertain({"./run"}));
  EXPECT_TRUE(IsCertain({"nohup", "env", "A=1", "python3", "-u", "train.py"}));
  EXPECT_TRUE(IsCertain({"bash", "-c", "exec python3 train.py \"$LR\" >log 2>&1"}));
  EXPECT_FALSE(IsCertain({"python3", "-m", "pkg", "train.py"}));
  EXPECT_FALSE(IsCertain({"python3", "-W", "ignore", "train.py"})) << "it may be an argument";
  EXPECT_FALSE(IsCertain({"torchrun", "train.py"}));
  fs::create_symlink("/opt/code", folder() / "code");
  EXPECT_FALSE(IsCertain({"python3", "code/train.py"})) << "the host may have that folder";
}

TEST_F(WorkdirWarningsTest, AScriptThatAnIgnoreFileKeepsHereIsNamed) {
  Write("train.py");
  Write(".gitignore", "train.py\n");
  EXPECT_THAT(Of({"python3", "train.py"}),
              ElementsAre(HasSubstr("train.py stays on this machine")));
}

TEST_F(WorkdirWarningsTest, AFolderThatPythonCannotRunIsNamed) {
  Write("sub/train.py");
  Write("tool/__main__.py");
  Write("data/part0");
  const auto no_main = ElementsAre(HasSubstr("there is no sub/__main__.py in the workdir"));
  EXPECT_THAT(Of({"python3", "sub/"}), no_main);
  EXPECT_THAT(Of({"python3", "-u", "sub", "--lr", "1"}), no_main);
  EXPECT_THAT(Of({"python3", "."}), ElementsAre(HasSubstr("there is no __main__.py")));
  EXPECT_THAT(Of({"python3", "tool/"}), IsEmpty());
  EXPECT_THAT(Of({"python3", "-m", "tool", "data"}), IsEmpty());
  EXPECT_THAT(Of({"python3", "-c", "print()", "data"}), IsEmpty());
  EXPECT_THAT(Of({"python3", "sub/train.py", "data"}), IsEmpty());
}

TEST_F(WorkdirWarningsTest, AModuleOfTheFolderThatIsNotSentIsNamed) {
  Write("train.py");
  Write("pkg/__init__.py");
  Write("pkg/run.py");
  Write("pkg/sent.py");
  Write("tool/__main__.py");
  Write("tool/other.py");
  Write(".tfdistignore", "/train.py\npkg/run.py\n__main__.py\n");
  const std::vector<std::vector<protocol::Text>> launchers = {
      {"python3", "-u", "-m"},
      {"python3", "-um"},
      {"nohup", "python3", "-m"},
      {"torchrun", "--nproc-per-node", "2", "-m"},
      {"/opt/venv/bin/torchrun", "--module"},
      {"python3", "-m", "torch.distributed.run", "--nproc-per-node=2", "-m"},
      {"accelerate", "launch", "-m"}};
  for (auto command : launchers) {
    const auto of = [&](const char* module) {
      auto words = command;
      words.emplace_back(module);
      words.emplace_back("--lr");
      for (const auto& warning : Warnings(words)) {
        EXPECT_FALSE(warning.is_certain || warning.is_of_script) << "the host's Python may have it";
      }
      return Of(words);
    };
    EXPECT_THAT(of("train"), ElementsAre(HasSubstr("train.py stays on this machine")));
    EXPECT_THAT(of("pkg.run"), ElementsAre(HasSubstr("pkg/run.py stays on this machine")));
    EXPECT_THAT(of("tool"), ElementsAre(HasSubstr("tool/__main__.py stays on this machine")));
    EXPECT_THAT(of("pkg.rnu"), ElementsAre(HasSubstr("there is no module pkg.rnu in the workdir")));
    for (const char* silent : {"pkg.sent", "http.server", "trian", "tool.rnu", "not a name"}) {
      EXPECT_THAT(of(silent), IsEmpty()) << silent;
    }
  }
  EXPECT_THAT(Of({"python3", "-I", "-m", "train"}), IsEmpty());
  EXPECT_THAT(Of({"torchrun", "/opt/x.py", "-m", "train"}), IsEmpty());
  Write("src/train.py");
  EXPECT_THAT(Of({"python3", "-m", "train"}), IsEmpty()) << "by PYTHONPATH, perhaps";
  cwd_ = protocol::Text("pkg");
  EXPECT_THAT(Of({"python3", "-m", "run"}),
              ElementsAre(HasSubstr("pkg/run.py stays on this machine")));
}

TEST_F(WorkdirWarningsTest, AScriptByAPathOfThisMachineIsNamed) {
  Write("train.py");
  const std::string path = (folder() / "train.py").string();
  EXPECT_THAT(Of({"python3", path}), ElementsAre(HasSubstr(path + " is a path of this machine")));
  const WorkdirWarning warning = Warnings({"env", "A=1", "python3", "-u", path})[0];
  EXPECT_EQ(warning.remedy, "write train.py");
  EXPECT_FALSE(warning.is_certain || warning.is_of_script) << "the hosts may have that path, too";
  const TemporaryFolder other;
  fs::create_directory_symlink(folder(), other.path() / "link");
  EXPECT_EQ(Warnings({"python3", (other.path() / "link/train.py").string()})[0].remedy,
            "write train.py");
  EXPECT_THAT(Of({"python3", "../" + folder().filename().string() + "/train.py"}),
              ElementsAre(HasSubstr("is a path of this machine")));
  EXPECT_THAT(Of({"python3", "/opt/train.py"}), IsEmpty());
  EXPECT_THAT(Of({"python3", "../no/such.py"}), IsEmpty());
  Write("sub/x");
  cwd_ = protocol::Text("sub");
  EXPECT_EQ(Warnings({"python3", path})[0].remedy, "write ../train.py");
}

TEST_F(WorkdirWarningsTest, LinksThatLeadOutAreNamed) {
  Write("a/file");
  fs::create_symlink("../file", folder() / "a/inside");
  EXPECT_THAT(Of({"true"}), IsEmpty());
  fs::create_symlink("../../data", folder() / "a/data");
  fs::create_symlink("/mnt/big", folder() / "big");
  EXPECT_THAT(Of({"true"}),
              ElementsAre(HasSubstr(
                  "links in the workdir lead out of it: a/data, big; they are sent as links, ")));
}

TEST_F(WorkdirWarningsTest, AVirtualEnvironmentIsNamedWithItsSize) {
  Write(".venv/pyvenv.cfg");
  Write(".venv/lib/big", std::string(20'000, 'x'));
  EXPECT_THAT(Of({"true"}), ElementsAre(HasSubstr("another path: .venv (20 kB)")));
}

TEST_F(WorkdirWarningsTest, CachesAreNamedWithTheirSizesTheLargestFirst) {
  Write("a/__pycache__/x.pyc", std::string(400'000, 'x'));
  EXPECT_THAT(Of({"true"}), IsEmpty()) << "a small one is no matter";
  Write("web/node_modules/p/node_modules/big", std::string(700'000, 'x'));
  Write("web/node_modules/q", std::string(100'000, 'x'));
  EXPECT_THAT(Of({"true"}),
              ElementsAre("the workdir holds 1.2 MB of caches, which are sent: web/node_modules "
                          "(800 kB), a/__pycache__ (400 kB)"));
}

}  // namespace
}  // namespace tfdist::cli
