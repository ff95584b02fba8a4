// `tfdist schema [COMMAND]`: docs/json.schema.json, as it was when this tfdist was built.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/failures.h"
#include "cli/commands/commands.h"
#include "cli/exit_codes.h"
#include "cli/stream/print.h"
#include "json.schema.json.h"

namespace tfdist::cli {
namespace {

using Schema = nlohmann::ordered_json;

// Of its definitions those of commands; the others are parts of several, and begin with a capital.
std::vector<std::string> CommandsWithJson(const Schema& schema) {
  std::vector<std::string> commands;
  for (const auto& [name, definition] : schema.at("$defs").items()) {
    if (name.front() >= 'a') commands.push_back(name);
  }
  return commands;
}

}  // namespace

int SchemaCommand(const std::string& command) {
  if (command.empty()) {
    PrintLines(kJsonSchema);
    return kExitSuccess;
  }
  Schema schema = Schema::parse(kJsonSchema);
  const std::vector<std::string> commands = CommandsWithJson(schema);
  if (std::ranges::find(commands, command) == commands.end()) {
    throw UsageError(Phase::kUsage, fmt::format("'{}' is none of the commands that have --json: {}",
                                                command, fmt::join(commands, ", ")));
  }
  schema["$id"] = schema.at("$id").get<std::string>() + ":" + command;
  schema["$ref"] = "#/$defs/" + command;
  PrintLines(schema.dump(2) + "\n");
  return kExitSuccess;
}

}  // namespace tfdist::cli
