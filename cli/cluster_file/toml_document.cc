#include "cli/cluster_file/toml_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "cli/cluster_file/key_depth.h"
#include "cli/cluster_file/toml_plus_plus.h"

namespace tfdist::cli {
namespace {

int ToInt(toml::source_index index) { return static_cast<int>(index); }

TomlNode Convert(const toml::node& node);

TomlNode::Array ConvertArray(const toml::array& array) {
  TomlNode::Array converted;
  converted.reserve(array.size());
  for (const toml::node& element : array) converted.push_back(Convert(element));
  return converted;
}

TomlNode::Table ConvertTable(const toml::table& table) {
  TomlNode::Table converted;
  converted.reserve(table.size());
  for (const auto& [key, node] : table) {
    const toml::source_position begin = key.source().begin;
    converted.push_back(
        {std::string(key.str()), ToInt(begin.line), ToInt(begin.column), Convert(node)});
  }
  std::stable_sort(converted.begin(), converted.end(), [](const TomlEntry& a, const TomlEntry& b) {
    return std::pair(a.line, a.column) < std::pair(b.line, b.column);
  });
  return converted;
}

TomlNode Convert(const toml::node& node) {
  const toml::source_position begin = node.source().begin;
  TomlNode converted{ToInt(begin.line), ToInt(begin.column), TomlNode::Date{}};
  if (const auto* text = node.as_string()) converted.value = text->get();
  if (const auto* number = node.as_integer()) converted.value = number->get();
  if (const auto* number = node.as_floating_point()) converted.value = number->get();
  if (const auto* flag = node.as_boolean()) converted.value = flag->get();
  if (const auto* array = node.as_array()) converted.value = ConvertArray(*array);
  if (const auto* table = node.as_table()) converted.value = ConvertTable(*table);
  return converted;
}

}  // namespace

std::variant<TomlNode::Table, TomlSyntaxError> ParseToml(std::string_view text) {
  if (const std::optional<int> line = LineOfTooDeepKey(text)) {
    return TomlSyntaxError{*line, 1, fmt::format("a key of more than {} parts", kMostKeyParts)};
  }
  try {
    return ConvertTable(toml::parse(text));
  } catch (const toml::parse_error& error) {
    const toml::source_position begin = error.source().begin;
    return TomlSyntaxError{ToInt(begin.line), ToInt(begin.column),
                           std::string(error.description())};
  }
}

}  // namespace tfdist::cli
