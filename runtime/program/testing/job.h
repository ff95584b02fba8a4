// A job of real processes on 127.0.0.1: the executable once for each task, as tfdist starts it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/testing/temporary_folder.h"
#include "base/testing/test_paths.h"
#include "runtime/program/testing/child.h"
#include "runtime/testing/local_cluster.h"

namespace tfdist::runtime::testing {

inline const std::string kProgram = TestBinDir() / "tfdist-runtime";
inline const std::string kDigits = TestSourceDir() / "configs/data/digits";
inline constexpr std::chrono::seconds kLimit{TFDIST_TEST_SANITIZED ? 300 : 60};

class Job {
 public:
  // `arguments` are every task's.
  Job(int servers, int trainers, const std::vector<std::string>& arguments);

  // What the tasks that are started from now on run instead of tfdist-runtime, and what is in their
  // environment besides ("NAME=value").
  void Use(std::string program, std::vector<std::string> environment = {});

  // Trainers first: the order of the starts must not matter. `of_chief`: its arguments beside all
  // tasks'.
  void StartAll(const std::vector<std::string>& of_chief = {});
  // Again, if it was started before. `first`: what a shell does before it becomes the task, "ulimit
  // -n 256".
  Child& StartAlone(const std::string& task, const std::string& first = "");
  // Variables ("NAME=value") that a task has from its next start on; before: none.
  void SetEnvironment(const std::string& task, std::vector<std::string> variables);
  // Kills what runs of a task, and waits for its end.
  void Kill(const std::string& task);
  // Gives a task's process away: it outlives what happens to the job.
  Child Release(const std::string& task);
  // Kills all tasks and starts them again, as the job's next attempt.
  void StartNextAttempt();

  [[nodiscard]] int PortOf(const std::string& type, size_t index) const;
  Child& operator[](const std::string& task) { return tasks_.at(task); }
  // Gone after the test.
  [[nodiscard]] const TemporaryFolder& folder() const { return folder_; }

 private:
  [[nodiscard]] std::vector<TaskId> TasksOf(const std::string& type) const;
  [[nodiscard]] std::vector<std::string> ArgvOf(const std::vector<std::string>& further) const;
  [[nodiscard]] std::vector<std::string> EnvironmentOf(const std::string& task) const;
  void Start(const TaskId& task, const std::vector<std::string>& further);

  TemporaryFolder folder_;
  LocalCluster cluster_;
  std::string secret_file_;
  std::vector<std::string> arguments_;
  std::string program_ = kProgram;
  std::vector<std::string> further_environment_;
  uint32_t attempt_ = 1;
  std::map<std::string, std::vector<std::string>> environment_;  // by task
  std::map<std::string, Child> tasks_;
};

// Of a line that holds "NAME 12.3", the number.
double NumberAfter(const std::string& line, const std::string& name);

}  // namespace tfdist::runtime::testing
