#include "agent/tasks/conda.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"

namespace tfdist::agent {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class CondaTest : public testing::Test {
 protected:
  CondaTest() {
    std::string name = testing::TempDir() + "conda.XXXXXX";
    home_ = mkdtemp(name.data());
    host_.Set("HOME", home_);
    host_.Set("PATH", "/usr/bin");
  }
  ~CondaTest() override { fs::remove_all(home_); }

  std::string Make(const std::string& path) const {
    fs::create_directories(home_ / path / "conda-meta");
    return home_ / path;
  }
  [[nodiscard]] std::string Find(const std::string& wanted) const {
    return FindConda(wanted, host_, "worker:0").prefix;
  }
  [[nodiscard]] std::string RemedyFor(const std::string& wanted) const {
    try {
      return "found: " + Find(wanted);
    } catch (const Error& error) {
      EXPECT_THAT(error.cause(), HasSubstr("the conda environment " + wanted + " of worker:0"));
      return error.remedy();
    }
  }

  fs::path home_;
  Environment host_;
};

TEST_F(CondaTest, FindsANameWhereCondaKeepsIt) {
  const std::string base = Make("miniconda3");
  const std::string tf = Make("miniconda3/envs/tf");
  const std::string other = Make("elsewhere/mine");
  fs::create_directories(home_ / ".conda");
  std::ofstream(home_ / ".conda/environments.txt") << other << "\n/nowhere/gone\n";
  EXPECT_EQ(Find("tf"), tf);
  EXPECT_EQ(Find("base"), base);
  EXPECT_EQ(Find("mine"), other);
  EXPECT_EQ(Find(other), other);
}

TEST_F(CondaTest, FindsTheCondaOfTheVariableFirst) {
  Make("miniconda3/envs/tf");
  const std::string tf = Make("opt/envs/tf");
  host_.Set("CONDA_EXE", home_ / "opt/bin/conda");
  EXPECT_EQ(Find("tf"), tf);
}

TEST_F(CondaTest, SaysWhatThereIs) {
  EXPECT_THAT(RemedyFor("tf"), HasSubstr("no conda was found"));
  Make("miniforge3");
  Make("miniforge3/envs/torch");
  fs::create_directories(home_ / "miniforge3/envs/broken");
  EXPECT_EQ(RemedyFor("tf"), "this host has: base, torch");
  EXPECT_EQ(RemedyFor("broken"), "this host has: base, torch");
  EXPECT_EQ(RemedyFor(home_ / "nothing"), "this host has: base, torch");
}

TEST_F(CondaTest, PutsItsProgramsFirst) {
  Make("miniconda3/envs/tf");
  Environment task = host_;
  Activate(FindConda("tf", host_, "worker:0"), task);
  EXPECT_EQ(task.Get("PATH"), (home_ / "miniconda3/envs/tf/bin").string() + ":/usr/bin");
  EXPECT_EQ(task.Get("CONDA_PREFIX"), (home_ / "miniconda3/envs/tf").string());
  EXPECT_EQ(task.Get("CONDA_DEFAULT_ENV"), "tf");
}

}  // namespace
}  // namespace tfdist::agent
