#include "cli/plan/testing/test_files.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "base/hash.h"
#include "cli/plan/describe.h"

namespace tfdist::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kRest =
    "[task]\n"
    "command = [\"program\"]\n"
    "gpus = 0\n"
    "[cluster]\n";

std::vector<std::string> AddressesOf(const Plan& plan) {
  std::vector<std::string> addresses;
  for (const HostPlan& host : plan.hosts) addresses.push_back(host.address);
  return addresses;
}

std::string Filled(const Plan& plan, const protocol::Text& text) {
  const auto addresses = AddressesOf(plan);
  return protocol::Fill(
      text, {addresses, plan.common, [](const std::string& name) { return "$" + name; }});
}

std::string WholeFile(std::string_view cluster) {
  return fmt::format("name = \"digits\"\n{}{}", kRest, cluster);
}

}  // namespace

PlanTest::PlanTest() : folder_(fs::temp_directory_path() / ("tfdist-plan-" + RandomHex(8))) {
  fs::create_directories(folder_ / "work");
}

PlanTest::~PlanTest() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

fs::path PlanTest::Write(std::string_view toml) const {
  const fs::path path = folder_ / "cluster.toml";
  std::ofstream(path, std::ios::binary | std::ios::trunc) << toml;
  return path;
}

Plan PlanTest::Load(std::string_view toml) const {
  try {
    return LoadPlan(Write(toml));
  } catch (const PlanErrors& errors) {
    ADD_FAILURE() << errors.Report() << toml;
    return {};
  }
}

Plan PlanTest::LoadCluster(std::string_view cluster) const { return Load(WholeFile(cluster)); }

std::vector<PlanProblem> PlanTest::Problems(std::string_view toml) const {
  try {
    LoadPlan(Write(toml));
    return {};
  } catch (const PlanErrors& errors) {
    return errors.problems();
  }
}

std::vector<std::string> PlanTest::Messages(std::string_view toml) const {
  std::vector<std::string> messages;
  for (const PlanProblem& problem : Problems(toml)) {
    messages.push_back(problem.key + ": " + problem.message);
  }
  return messages;
}

std::vector<std::string> PlanTest::ClusterMessages(std::string_view cluster) const {
  return Messages(WholeFile(cluster));
}

const TaskOnHost& TaskNamed(const Plan& plan, std::string_view name) {
  static const TaskOnHost kNone;
  const auto found =
      std::find_if(plan.tasks.begin(), plan.tasks.end(),
                   [&](const TaskOnHost& task) { return ToString(task.id) == name; });
  if (found != plan.tasks.end()) return *found;
  ADD_FAILURE() << "no task " << name;
  return kNone;
}

TfConfig TfConfigOf(const Plan& plan, std::string_view task) {
  return TfConfig::FromJson(EnvOf(plan, task, "TF_CONFIG"));
}

std::string EnvOf(const Plan& plan, std::string_view task, std::string_view name) {
  for (const auto& [variable, text] : DescribeTask(plan, TaskNamed(plan, task)).env) {
    if (variable == name) return Filled(plan, text);
  }
  return "(unset)";
}

std::vector<std::string> ArgvOf(const Plan& plan, std::string_view task) {
  std::vector<std::string> argv;
  for (const protocol::Text& text : DescribeTask(plan, TaskNamed(plan, task)).argv) {
    argv.push_back(Filled(plan, text));
  }
  return argv;
}

std::vector<std::string> Places(const Plan& plan) {
  std::vector<std::string> places;
  for (const TaskOnHost& task : plan.tasks) {
    const std::string& host = plan.hosts.at(static_cast<size_t>(task.slot)).address;
    places.push_back(fmt::format("{}@{}:{}", ToString(task.id), host, task.port));
  }
  return places;
}

}  // namespace tfdist::cli
