#include "runtime/program/testing/job.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <utility>

#include "base/hash.h"

namespace tfdist::runtime::testing {

Job::Job(int servers, int trainers, const std::vector<std::string>& arguments)
    : cluster_(servers, trainers),
      secret_file_(folder_.Write("secret", RandomHex(32) + "\n")),
      arguments_(arguments) {}

void Job::Use(std::string program, std::vector<std::string> environment) {
  program_ = std::move(program);
  further_environment_ = std::move(environment);
}

void Job::StartAll(const std::vector<std::string>& of_chief) {
  for (const TaskId& task : TasksOf("worker")) Start(task, {});
  Start({"master", 0}, of_chief);
  for (const TaskId& task : TasksOf("ps")) Start(task, {});
}

Child& Job::StartAlone(const std::string& task, const std::string& first) {
  std::vector<std::string> argv = ArgvOf({});
  if (!first.empty()) argv.insert(argv.begin(), {"/bin/sh", "-c", first + R"(; exec "$0" "$@")"});
  tasks_.erase(task);
  return tasks_.emplace(task, Child(argv, EnvironmentOf(task))).first->second;
}

void Job::SetEnvironment(const std::string& task, std::vector<std::string> variables) {
  environment_[task] = std::move(variables);
}

void Job::Kill(const std::string& task) {
  tasks_.at(task).Signal(SIGKILL);
  EXPECT_EQ(tasks_.at(task).Wait(kLimit), 128 + SIGKILL) << task;
}

Child Job::Release(const std::string& task) { return std::move(tasks_.extract(task).mapped()); }

void Job::StartNextAttempt() {
  tasks_.clear();  // kills them
  ++attempt_;
  StartAll();
}

int Job::PortOf(const std::string& type, size_t index) const {
  return ParseHostPort(cluster_.tasks.at(type).at(index))->port;
}

std::vector<TaskId> Job::TasksOf(const std::string& type) const {
  std::vector<TaskId> tasks;
  const auto found = cluster_.tasks.find(type);
  const size_t count = found == cluster_.tasks.end() ? 0 : found->second.size();
  for (size_t i = 0; i < count; ++i) tasks.push_back({type, static_cast<int>(i)});
  return tasks;
}

std::vector<std::string> Job::ArgvOf(const std::vector<std::string>& further) const {
  std::vector<std::string> argv = {program_, "--data", kDigits};
  argv.insert(argv.end(), arguments_.begin(), arguments_.end());
  argv.insert(argv.end(), further.begin(), further.end());
  return argv;
}

// What tfdist would give a task; those of the caller's own that matter to the sanitizers are kept.
std::vector<std::string> Job::EnvironmentOf(const std::string& task) const {
  std::vector<std::string> environment = {"TF_CONFIG=" + ConfigOf(cluster_, task).ToJson(),
                                          "TFDIST_SECRET_FILE=" + secret_file_,
                                          "TFDIST_ATTEMPT=" + std::to_string(attempt_)};
  for (const char* name : {"ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"}) {
    const char* value = std::getenv(name);
    if (value != nullptr) environment.push_back(std::string(name) + "=" + value);
  }
  if (const auto more = environment_.find(task); more != environment_.end()) {
    environment.insert(environment.end(), more->second.begin(), more->second.end());
  }
  environment.insert(environment.end(), further_environment_.begin(), further_environment_.end());
  return environment;
}

void Job::Start(const TaskId& task, const std::vector<std::string>& further) {
  const std::string name = ToString(task);
  tasks_.emplace(name, Child(ArgvOf(further), EnvironmentOf(name)));
}

double NumberAfter(const std::string& line, const std::string& name) {
  const size_t found = line.find(name + " ");
  EXPECT_NE(found, std::string::npos) << line;
  return std::strtod(line.c_str() + found + name.size(), nullptr);
}

}  // namespace tfdist::runtime::testing
