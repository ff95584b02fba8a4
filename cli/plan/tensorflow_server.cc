#include "cli/plan/tensorflow_server.h"

#include <filesystem>
#include <string>

namespace tfdist::cli {
namespace {

// tf.distribute.Server has been tf.train.Server before TensorFlow 1.14. It ends with the job.
constexpr const char* kServer =
    "import json, os, tensorflow as tf; told = json.loads(os.environ['TF_CONFIG']); "
    "Server = getattr(getattr(tf, 'distribute', None), 'Server', None) or tf.train.Server; "
    "Server(told['cluster'], told['task']['type'], told['task']['index']).join()";

bool IsPython(const std::string& program) {
  return std::filesystem::path(program).filename().string().starts_with("python");
}

std::string PythonOf(const ClusterFile& file) {
  const auto& command = file.task.command;
  const bool runs_python = command && !command->empty() && IsPython(command->front().value);
  return runs_python ? command->front().value : "python3";
}

}  // namespace

std::vector<Located<std::string>> WithTensorFlowServer(
    const ClusterFile& file, const std::vector<Located<std::string>>& command) {
  if (command.size() != 1 || command.front().value != kTensorFlowServer) return command;
  const Where& where = command.front().where;
  return {{PythonOf(file), where}, {"-c", where}, {kServer, where}};
}

bool RunsTensorFlowServer(const TaskOnHost& task) {
  return !task.argv.empty() && task.argv.back() == protocol::Text(kServer);
}

}  // namespace tfdist::cli
