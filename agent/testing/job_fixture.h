// For tests: one job on this machine, with as many slots as wanted in one folder, real agents, and
// a proof at the end that no process is left.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "agent/census/process_table.h"
#include "agent/protocol.h"
#include "agent/testing/agent_client.h"

namespace tfdist::agent {

class JobTest : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  // One task: a shell command.
  struct Task {
    std::string name;
    int slot;
    std::string script;
    bool decides = true;
    int64_t grace_ms = 10'000;
  };

  // What `create` is sent for a slot.
  [[nodiscard]] protocol::Create MakeCreate(int slot) const;
  AgentClient CreateSlot(int slot);
  AgentClient Attach(int slot);
  [[nodiscard]] protocol::HostDescription Describe(int slot, const std::vector<Task>& tasks) const;
  [[nodiscard]] protocol::JobPlan Plan(int slots, const std::vector<Task>& tasks) const;
  // All the way to the commit. Clients of the slots, in order.
  std::vector<AgentClient> Deploy(int slots, const std::vector<Task>& tasks);

  [[nodiscard]] std::filesystem::path SlotFolder(int slot) const;
  // Reads the task's log until it contains `text`.
  static void WaitForLog(AgentClient& client, const std::string& task, const std::string& text);
  // Begins to follow a log; more of it is read into `log` until it contains `text`.
  static uint64_t Follow(AgentClient& client, const std::string& task);
  static void WaitForText(AgentClient& client, uint64_t stream, std::string& log,
                          const std::string& text);
  // SIGKILL for keeper, agent and holders of a slot, all at once.
  void KillAllOf(int slot) const;
  // The running process of that role ("tfdist-keeper", ...) of a slot.
  pid_t FindRole(int slot, const std::string& name) const;
  // Children of this process (a subreaper) and all below, but for zombies.
  static std::vector<ProcessInfo> Left();
  static void WaitUntilNothingIsLeft();

  std::filesystem::path base_;
  std::filesystem::path executable_;
  int64_t orphan_timeout_ms_ = 300'000;
  // Its own in every test and every run of it: a census looks at the whole machine.
  std::string job_;
};

// All events, also those to come.
inline const protocol::Json kFromTheFirst = {{"from", 1}, {"follow", true}};

// The last event of a stream of events that has been read up to `ended`.
std::string ResultOf(const std::vector<protocol::Event>& events);

}  // namespace tfdist::agent
