#include "cli/cluster_file/known_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cli/cluster_file/nearest.h"

namespace tfdist::cli {
namespace {

struct Table {
  std::string_view name;
  std::span<const std::string_view> keys;
};

// In the order in which a key's home is looked for.
constexpr Table kTables[] = {
    {"[task]", kTaskKeys},
    {"[cluster]", kClusterKeys},
    {"[roles.NAME]", kRoleKeys},
    {"[restart] NAME", kRestartKeys},
    {"[ssh]", kSshKeys},
    {"[setup]", kSetUpKeys},
    {"[data] NAME", kDataKeys},
    {"image = { ... }", kImageKeys},
    {"{ address = ... } of a host", kHostKeys},
    {"[tensorboard]", kTensorBoardKeys},
};

constexpr std::string_view kTopTables[] = {"cluster", "task", "roles",   "setup", "data",
                                           "restart", "ssh",  "control", "check", "tensorboard"};

// What other tools call a key.
constexpr std::pair<std::string_view, std::string_view> kKeysOfOthers[] = {
    {"args", "command"},       {"backoffLimit", "restart"},  {"cmd", "command"},
    {"entrypoint", "command"}, {"env_vars", "env"},          {"environment", "env"},
    {"envs", "env"},           {"gpus_per_node", "gpus"},    {"machines", "hosts"},
    {"nodes", "hosts"},        {"num_gpus", "gpus"},         {"num_nodes", "hosts"},
    {"replicas", "count"},     {"restartPolicy", "restart"}, {"restart_policy", "restart"},
    {"run", "command"},        {"timeout", "deadline"},      {"volumes", "mounts"},
    {"working_dir", "cwd"},    {"workingDir", "cwd"},
};

std::string_view OwnWordFor(std::string_view key) {
  for (const auto& [word, own] : kKeysOfOthers) {
    if (word == key) return own;
  }
  return key;
}

bool Holds(std::span<const std::string_view> keys, std::string_view key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

}  // namespace

std::string HintForUnknownKey(std::string_view key, std::span<const std::string_view> known) {
  const std::string_view own = OwnWordFor(key);
  if (Holds(known, own)) return fmt::format("did you mean '{}'?", own);
  std::string hint = DidYouMean(key, known);
  if (!hint.empty()) return hint;
  key = own;
  if (Holds(kTopTables, key)) return fmt::format("'{0}' is a table of its own: [{0}]", key);
  // In TOML a table goes on to the next header, so a key at the end of a file is not at its top.
  if (Holds(kTopKeys, key)) {
    return fmt::format("'{}' belongs at the top of the file, before the first [table]", key);
  }
  for (const Table& table : kTables) {
    if (Holds(table.keys, key)) return fmt::format("'{}' belongs in {}", key, table.name);
  }
  return {};
}

std::string SetForKey(std::string_view key) {
  const auto is_table = [](std::string_view name) {
    return name == "cluster" || std::ranges::any_of(kTables, [&](const Table& table) {
             return table.name.starts_with('[' + std::string(name));
           });
  };
  if (Holds(kTaskKeys, key)) return fmt::format("--set task.{}=...", key);
  if (Holds(kClusterKeys, key)) return fmt::format("--set cluster.{}=...", key);
  return Holds(kTopKeys, key) && !is_table(key) ? fmt::format("--set {}=...", key) : "";
}

std::string OneOf(std::span<const std::string_view> choices) {
  std::string text;
  for (size_t i = 0; i < choices.size(); ++i) {
    if (i > 0) text += i + 1 == choices.size() ? " or " : ", ";
    text += fmt::format("\"{}\"", choices[i]);
  }
  return text;
}

}  // namespace tfdist::cli
