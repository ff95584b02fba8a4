// Cluster files as text, for tests.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "cli/cluster_file/problems.h"
#include "cli/plan/plan.h"

namespace tfdist::cli {

// A folder of its own for each test, gone afterwards; holds cluster.toml and an empty folder
// "work".
class PlanTest : public testing::Test {
 protected:
  PlanTest();
  ~PlanTest() override;

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path Write(std::string_view toml) const;
  // Fails the test, with the report, when `toml` has mistakes.
  Plan Load(std::string_view toml) const;
  // A job that is fine but for what `cluster` and what follows it say.
  Plan LoadCluster(std::string_view cluster) const;
  std::vector<PlanProblem> Problems(std::string_view toml) const;
  // "key: message" of each mistake.
  std::vector<std::string> Messages(std::string_view toml) const;
  // The same, for a job that is fine but for what `cluster` and what follows it say.
  std::vector<std::string> ClusterMessages(std::string_view cluster) const;

 private:
  std::filesystem::path folder_;
};

// The task of that name; fails the test when there is none.
const TaskOnHost& TaskNamed(const Plan& plan, std::string_view name);
// TF_CONFIG of a task, as it would get it, read back.
TfConfig TfConfigOf(const Plan& plan, std::string_view task);
// A variable of a task with the addresses filled in; "(unset)" when it has none of that name.
std::string EnvOf(const Plan& plan, std::string_view task, std::string_view name);
std::vector<std::string> ArgvOf(const Plan& plan, std::string_view task);
// "worker:0@10.0.0.2:2222", ... in the plan's order.
std::vector<std::string> Places(const Plan& plan);

}  // namespace tfdist::cli
