// For tests: one job on this machine, with as many slots as wanted in one folder, real agents, and
// a proof at the end that no process is left.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "agent/census/process_table.h"
#include "agent/testing/agent_client.h"
#include "wire/protocol.h"

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
    protocol::RestartRule restart = {.policy = protocol::RestartPolicy::kNever};
  };

  // What `create` is sent for a slot.
  [[nodiscard]] protocol::Create MakeCreate(int slot) const;
  AgentClient CreateSlot(int slot);
  AgentClient Attach(int slot);
  // Until an agent answers: `attach` waits for one that was killed to come back, but not for ever.
  AgentClient AttachToAgent(int slot, protocol::Hello* hello = nullptr);
  // Attaches to whatever serves the slot, and anew where an agent leaves before `ask` has returned.
  void AskSlot(int slot, const std::function<void(AgentClient&)>& ask);
  [[nodiscard]] protocol::HostDescription Describe(int slot, const std::vector<Task>& tasks) const;
  [[nodiscard]] protocol::JobPlan Plan(int slots, const std::vector<Task>& tasks) const;

  // A job, as its CLI knows it.
  struct Job {
    protocol::JobPlan plan;
    std::vector<AgentClient> clients;  // of the slots, in order
    uint64_t events = 0;               // the stream of all events, from the first client
  };
  // Up to the commit. A short job's agents are gone soon after it, however late the test is: it
  // asks for slot 0's logs before, as this does for the events.
  Job Prepare(int slots, const std::vector<Task>& tasks);
  static void Commit(Job& job);
  // Both.
  Job Deploy(int slots, const std::vector<Task>& tasks);

  // The pid of the task, once the coordinator has heard of its start. Looks at all events: tasks start in any order.
  static int WaitForStart(Job& job, const std::string& task);

  [[nodiscard]] std::filesystem::path SlotFolder(int slot) const;
  // Makes the name known to tasks of the slot: it is there in their folder.
  void Touch(int slot, const std::string& name);
  // Reads the task's log until it contains `text`.
  static void WaitForLog(AgentClient& client, const std::string& task, const std::string& text);
  // Begins to follow a log; more of it is read into `log` until it contains `text`.
  static uint64_t Follow(AgentClient& client, const std::string& task);
  static void WaitForText(AgentClient& client, uint64_t stream, std::string& log,
                          const std::string& text);
  // SIGKILL for keeper, agent and holders of a slot, all at once.
  void KillAllOf(int slot) const;
  // The running process of that role ("tfdist-keeper", ...) of a slot. Throws Error when there is
  // none: to kill(2), 0 is the test itself.
  pid_t FindRole(int slot, const std::string& name) const;
  // Children of this process (a subreaper) and all below, but for zombies.
  static std::vector<ProcessInfo> Left();
  static void WaitUntilNothingIsLeft();

  std::filesystem::path base_;
  std::filesystem::path executable_;
  int64_t orphan_timeout_ms_ = 300'000;
  std::string shared_;  // where logs are copied to; empty: nowhere
  // Its own in every test and every run of it: a census looks at the whole machine.
  std::string job_;
};

// All events, also those to come.
inline const protocol::Json kFromTheFirst = {{"from", 1}, {"follow", true}};

// The last event of a stream of events that has been read up to `ended`.
std::string ResultOf(const std::vector<protocol::Event>& events);

}  // namespace tfdist::agent
