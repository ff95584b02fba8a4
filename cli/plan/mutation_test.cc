// Broken cluster files from a seeded generator: whatever it is, LoadPlan answers with a Plan or
// PlanErrors.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <random>

#include "cli/plan/testing/test_files.h"

namespace tfdist::cli {
namespace {

class Mutation : public PlanTest {
 protected:
  // The seed is all that is needed to see a failure again.
  void Check(const std::string& toml, unsigned seed) const {
    try {
      const Plan plan = LoadPlan(Write(toml));
      EXPECT_FALSE(plan.tasks.empty()) << "seed " << seed << "\n" << toml;
    } catch (const PlanErrors& errors) {
      EXPECT_FALSE(errors.problems().empty()) << "seed " << seed;
      EXPECT_FALSE(errors.Report().empty());
    }
  }
};

constexpr std::string_view kWhole = R"(name = "digits"
done = "chief"
[cluster]
hosts = ["10.0.0.[1-4]", { address = "10.0.0.9", ssh = "gpu9", gpus = [0, 1], slots = 2, spare = true }]
layout = "uai"
chief_name = "chief"
ports = { worker = 2222, ps = [2223, 2224] }
[task]
command = ["python3", "{ps_hosts}", "{worker:0.address}", '''{{x} {"a": 1}''', "{task_index}"]
workdir = "work"
env = { A = "{job}", "B" = "\u00e9\n" }
gpus = "auto"
output = "merged"
grace = "10s"
log_limit = "64MiB"
shared = "/mnt/out"
[roles.ps]
gpus = 0
[roles.evaluator]
hosts = ["10.0.0.5"]
[restart]
worker = { policy = "task", limit = 3, backoff = "2s" }
ps = "task"
[ssh]
user = "ubuntu"
port = 22
host_keys = "accept-new"
transport = "openssh"
[control]
port = 4000
)";

// What mistakes are made of.
constexpr std::array<std::string_view, 24> kPieces = {
    "[",   "]",   "{",    "}",           "\"",          "'",          "\"\"\"", "=",
    ",",   ".",   "-",    "\n",          "\\",          "\0",         "[1-9]",  "999999999999",
    "nan", "inf", "true", "[roles.x]\n", "count = 9\n", "1979-05-27", "\xff",   "#"};

std::string Mutate(std::string text, std::mt19937& random) {
  const auto below = [&](size_t limit) {
    return std::uniform_int_distribution<size_t>(0, limit - 1)(random);
  };
  for (size_t edits = 1 + below(4); edits > 0 && !text.empty(); --edits) {
    const size_t at = below(text.size());
    switch (below(4)) {
      case 0:
        text.erase(at, 1 + below(8));
        break;
      case 1:
        text.insert(at, kPieces[below(kPieces.size())]);
        break;
      case 2:
        text[at] = static_cast<char>(below(256));
        break;
      default:
        text.insert(at, text.substr(below(text.size()), 1 + below(40)));
        break;
    }
  }
  return text;
}

// TFDIST_MUTATIONS=100000 plan_test: more of them.
unsigned Runs(unsigned usual) {
  const char* more = std::getenv("TFDIST_MUTATIONS");
  return more == nullptr ? usual : static_cast<unsigned>(std::stoul(more));
}

TEST_F(Mutation, TheWholeFileIsFine) { Load(kWhole); }

TEST_F(Mutation, OfAClusterFileNeverCrashes) {
  for (unsigned seed = 0; seed < Runs(1500); ++seed) {
    std::mt19937 random(seed);
    Check(Mutate(std::string(kWhole), random), seed);
  }
}

TEST_F(Mutation, OfRandomBytesNeverCrashes) {
  for (unsigned seed = 0; seed < Runs(500); ++seed) {
    std::mt19937 random(seed);
    std::string bytes(random() % 200, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    Check(bytes, seed);
  }
}

}  // namespace
}  // namespace tfdist::cli
