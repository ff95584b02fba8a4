#include "cli/cluster_file/read_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <variant>

#include "cli/cluster_file/known_keys.h"

namespace tfdist::cli {
namespace {

constexpr size_t kLongestName = 64;

// What may stand in {data:NAME}.
bool IsDataName(std::string_view name) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const auto is_part = [&](char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '_'; };
  return !name.empty() && name.size() <= kLongestName && is_letter(name.front()) &&
         std::ranges::all_of(name, is_part);
}

bool IsOfHosts(std::string_view path) {
  return path.starts_with('/') || path.starts_with("~/") || path.starts_with("{env:");
}

std::optional<DataEntry> ReadEntry(const Field& field, Problems& problems) {
  if (std::holds_alternative<std::string>(field.node->value)) {
    const auto source = ReadLine(field, problems);
    return source ? std::optional(DataEntry{{*source, field.where}, false}) : std::nullopt;
  }
  const auto* table = std::get_if<TomlNode::Table>(&field.node->value);
  if (table == nullptr) {
    ReportForm(field, "a folder or file of this machine, or { path = \"/path/on/the/hosts\" }",
               problems);
    return std::nullopt;
  }
  const TableReader reader(*table, field.where, kDataKeys, problems);
  const auto path = reader.Line("path");
  if (path && IsOfHosts(path->value)) return DataEntry{*path, true};
  if (path) {
    problems.Add(path->where,
                 fmt::format("expected a path of the hosts, beginning with / or ~/, got {}",
                             Quoted(path->value)));
  } else if (reader.Lacks("path")) {
    problems.Add(field.where, "says no path", "write { path = \"/path/on/the/hosts\" }");
  }
  return std::nullopt;
}

}  // namespace

std::map<std::string, DataEntry> ReadData(const TableReader& top, Problems& problems) {
  std::map<std::string, DataEntry> data;
  const TomlNode::Table* table =
      top.FreeTable("data", "a name for each: [data] with train = \"./data\"");
  if (table == nullptr) return data;
  for (const auto& [name, field] : Entries(*table, {0, 0, "data"})) {
    if (!IsDataName(name)) {
      problems.Add(field.where,
                   "expected a name of letters, digits and _ that begins with a letter");
    }
    // After a mistake the name is known all the same: {data:NAME} is none.
    auto entry = ReadEntry(field, problems);
    data.emplace(name, entry ? *std::move(entry) : DataEntry{{"", field.where}, true});
  }
  return data;
}

}  // namespace tfdist::cli
