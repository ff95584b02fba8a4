#include "runtime/program/task_environment.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/error.h"
#include "runtime/common/cluster.h"

namespace tfdist::runtime {
namespace {

std::optional<std::string> Variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  return value;
}

void CheckRole(const TfConfig& config) {
  const TaskId& task = config.task;
  if (task.type == "evaluator") {
    throw Error(Phase::kConfig, "an evaluator is not supported yet: the chief evaluates");
  }
  if (ServersOf(config.cluster).empty()) {
    throw Error(Phase::kConfig,
                "TF_CONFIG: there is no \"ps\" in the cluster to hold the variables");
  }
  const std::vector<TaskId> trainers = TrainersOf(config.cluster);
  if (trainers.empty()) {
    throw Error(Phase::kConfig, "TF_CONFIG: there is no chief, master or worker in the cluster");
  }
  if (task.type != "ps" && std::find(trainers.begin(), trainers.end(), task) == trainers.end()) {
    throw Error(Phase::kConfig,
                "TF_CONFIG: " + task.type + " is neither parameter server nor trainer");
  }
}

TfConfig ReadTfConfig() {
  const auto text = Variable("TF_CONFIG");
  if (!text) {
    throw Error(Phase::kConfig, "TF_CONFIG is not set",
                "start this program with tfdist, or set TF_CONFIG as for TensorFlow");
  }
  TfConfig config = TfConfig::FromJson(*text);
  CheckRole(config);
  return config;
}

uint32_t ReadAttempt() {
  const std::string text = Variable("TFDIST_ATTEMPT").value_or("1");
  uint32_t attempt = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, attempt);
  if (parsed.ec != std::errc() || parsed.ptr != end || attempt == 0) {
    throw Error(Phase::kConfig, "TFDIST_ATTEMPT: \"" + text + "\" is not a number from 1 on");
  }
  return attempt;
}

JobSecret ReadSecret() {
  const auto path = Variable("TFDIST_SECRET_FILE");
  if (!path) {
    throw Error(Phase::kConfig, "TFDIST_SECRET_FILE is not set",
                "name a 0600 file with 64 hexadecimal digits, or say --security none");
  }
  return JobSecret::FromFile(*path);
}

}  // namespace

TaskEnvironment ReadTaskEnvironment(bool secure) {
  TaskEnvironment task{ReadTfConfig(), ReadAttempt(), std::nullopt};
  if (secure) task.secret = ReadSecret();
  return task;
}

}  // namespace tfdist::runtime
