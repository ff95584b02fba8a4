#include "cli/cluster_file/read_env.h"

namespace tfdist::cli {

std::string WhyNotEnv(std::string_view name) {
  if (name.empty()) return "a variable needs a name";
  if (name.find_first_of(std::string_view("=\0", 2)) != std::string_view::npos) {
    return "the name of a variable can hold neither '=' nor NUL";
  }
  if (name == "TF_CONFIG") return "TF_CONFIG is worked out from this file";
  if (name == "CUDA_VISIBLE_DEVICES") {
    return "CUDA_VISIBLE_DEVICES is worked out from gpus: write gpus = [1] in [task], or --set "
           "task.gpus=[1]";
  }
  if (name.starts_with("TFDIST_")) return "TFDIST_* is what tfdist itself tells the task";
  return {};
}

std::map<std::string, Located<std::string>> ReadEnv(const Field& field, Problems& problems) {
  std::map<std::string, Located<std::string>> env;
  const TomlNode::Table* table =
      ReadTable(field, problems, "variables of tasks: env = { LR = \"0.1\" }");
  if (table == nullptr) return env;
  for (const auto& [name, entry] : Entries(*table, field.where)) {
    const auto value = ReadText(entry, problems);
    const std::string why = WhyNotEnv(name);
    if (!why.empty()) problems.Add(entry.where, why);
    if (value && why.empty()) env[name] = {*value, entry.where};
  }
  return env;
}

}  // namespace tfdist::cli
