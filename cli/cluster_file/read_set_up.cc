#include "cli/cluster_file/read_set_up.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "cli/cluster_file/known_keys.h"
#include "cli/cluster_file/read_settings.h"

namespace tfdist::cli {
namespace {

constexpr int64_t kShortestTimeoutMs = 1'000;
constexpr int64_t kLongestTimeoutMs = 24 * 3'600'000;

// "pyproject.toml", "src/": below the work folder.
bool IsBelow(const std::filesystem::path& path) {
  return path.is_relative() && !path.empty() &&
         std::ranges::none_of(path, [](const auto& part) { return part == ".."; });
}

std::vector<Located<std::string>> ReadInputs(const Field& field, Problems& problems) {
  std::vector<Located<std::string>> inputs;
  const auto elements = ReadArray(field, "a list of files of the workdir", problems);
  if (!elements) return inputs;
  for (const Field& element : *elements) {
    const auto input = ReadLine(element, problems);
    if (!input) continue;
    if (IsBelow(*input)) {
      inputs.push_back({*input, element.where});
    } else {
      problems.Add(element.where,
                   fmt::format("expected a path inside the workdir, got {}", Quoted(*input)));
    }
  }
  return inputs;
}

}  // namespace

std::optional<SetUpTable> ReadSetUp(const TableReader& top, Problems& problems) {
  const auto table = top.Table("setup", kSetUpKeys);
  if (!table) return std::nullopt;
  SetUpTable set_up;
  set_up.where = top.At("setup");
  if (const auto field = table->Find("command")) {
    set_up.command = ReadCommand(*field, problems).value_or(std::vector<Located<std::string>>());
  } else if (table->Lacks("command")) {
    problems.Add(set_up.where, "says no command", "write command = [\"uv\", \"sync\"]");
  }
  if (const auto field = table->Find("inputs")) set_up.inputs = ReadInputs(*field, problems);
  const auto timeout = table->DurationMs("timeout");
  if (timeout && (timeout->value < kShortestTimeoutMs || timeout->value > kLongestTimeoutMs)) {
    problems.Add(timeout->where, "expected 1s to 24h");
  } else if (timeout) {
    set_up.timeout_ms = timeout->value;
  }
  return set_up;
}

}  // namespace tfdist::cli
