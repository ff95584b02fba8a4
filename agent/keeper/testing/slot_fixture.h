// For tests of keeper and holder: one slot's folder with a real keeper in it, an agent that obeys
// the test, and a proof at the end that no process is left.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "agent/process/note.h"
#include "agent/process/run_folder.h"

namespace tfdist::agent {

// Waits until `condition` holds; at `deadline` the test fails, naming `what`.
bool WaitFor(const std::function<bool()>& condition, std::chrono::milliseconds deadline,
             const std::string& what);
// Generous: the machine may be busy with other builds.
inline constexpr std::chrono::seconds kLong{60};

// Makes a process unkillable for a while, as a hung disk or driver would: frozen by cgroup v1 it is
// in state D.
class Freezer {
 public:
  // `works()` is false where there is no such cgroup.
  explicit Freezer(pid_t pid);
  ~Freezer();  // thaws
  Freezer(const Freezer&) = delete;
  [[nodiscard]] bool works() const { return works_; }
  void Thaw();

 private:
  std::filesystem::path folder_;
  bool works_ = false;
};

class SlotTest : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  // Starts the keeper, and waits for its agent.
  void StartKeeper(int listener_fd = -1, int name_lock_fd = -1);
  void Order(const std::string& order);
  // The agent has passed it on to the keeper.
  void WaitUntilOrdered(const std::string& order);
  // Writes the run's spec and orders it to be started; `change` may alter the spec first.
  void StartRun(const std::string& task, std::vector<std::string> argv, int run = 1,
                const std::function<void(RunSpec&)>& change = {});
  // The helper executable in the role of a task.
  [[nodiscard]] std::vector<std::string> Helper(const std::string& what) const;

  [[nodiscard]] std::filesystem::path TaskFolder(const std::string& task) const;
  [[nodiscard]] RunState State(const std::string& task, int run = 1) const;
  RunPids WaitForPids(const std::string& task, int run = 1);
  protocol::TaskExit WaitForExit(const std::string& task, int run = 1);
  // Exit written and holder gone.
  protocol::TaskExit WaitForDone(const std::string& task, int run = 1);
  [[nodiscard]] std::string LogText(const std::string& task) const;
  void WaitForLog(const std::string& task, const std::string& text);

  struct Birth {
    pid_t pid = 0;
    int restarts = 0;
    bool keeper_lost = false;
    bool has_listener = false;
    bool has_name_lock = false;
  };
  // Agents so far, the running one last.
  [[nodiscard]] std::vector<Birth> Births() const;
  Birth WaitForAgent(size_t number);
  [[nodiscard]] std::vector<Note> Notes() const;
  void WaitForNote(NoteKind kind, const std::string& task);

  [[nodiscard]] pid_t keeper() const { return keeper_; }
  // The keeper's exit code, once it has ended with nothing left.
  int WaitForKeeperEnd();
  // Children of this process (a subreaper) and all below, but for zombies.
  static std::vector<ProcessInfo> Left();
  void WaitUntilNothingIsLeft();

  std::filesystem::path folder_;

 private:
  pid_t keeper_ = 0;
};

}  // namespace tfdist::agent
