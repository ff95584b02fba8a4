#include "cli/cluster_file/set_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace tfdist::cli {
namespace {

const Where kOption = {0, 0, "--set"};

// Its own lines are those of the option's text.
void TakeLinesAway(TomlNode& node) {
  node.line = kLineOfSet;
  node.column = 0;
  if (auto* elements = std::get_if<TomlNode::Array>(&node.value)) {
    std::ranges::for_each(*elements, TakeLinesAway);
  } else if (auto* entries = std::get_if<TomlNode::Table>(&node.value)) {
    for (TomlEntry& entry : *entries) {
      entry.line = kLineOfSet;
      entry.column = 0;
      TakeLinesAway(entry.node);
    }
  }
}

TomlNode ValueOf(std::string_view text) {
  const auto parsed = ParseToml(fmt::format("value = {}", text));
  const auto* table = std::get_if<TomlNode::Table>(&parsed);
  TomlNode node;
  if (table != nullptr && table->size() == 1) {
    node.value = table->front().node.value;
  } else {
    node.value = std::string(text);
  }
  return node;
}

std::string_view Shown(std::string_view setting) {
  return setting.substr(0, setting.find_first_of("=: "));
}

TomlEntry& Entry(TomlNode::Table& table, std::string_view key) {
  const auto found = std::ranges::find(table, key, &TomlEntry::key);
  if (found != table.end()) return *found;
  TomlEntry& added = table.emplace_back();
  added.key = key;
  added.line = kLineOfSet;
  added.node.line = kLineOfSet;
  added.node.value = TomlNode::Table();
  return added;
}

// An earlier --set says a part of it, or all.
bool IsSaid(const TomlEntry& entry) {
  const auto* table = std::get_if<TomlNode::Table>(&entry.node.value);
  return table != nullptr && std::ranges::any_of(*table, [](const TomlEntry& part) {
           return part.line == kLineOfSet || IsSaid(part);
         });
}

void SetValue(std::string_view setting, TomlNode::Table& file, Problems& problems) {
  const size_t equals = setting.find('=');
  std::string_view key = setting.substr(0, equals);
  const bool has_key = equals != setting.npos && !key.empty() && key.front() != '.' &&
                       key.back() != '.' && key.find("..") == key.npos;
  if (!has_key) {
    // The value may be a secret.
    problems.Add(kOption, fmt::format("expected KEY=VALUE, got {}", Shown(setting)),
                 "--set task.env.LR=0.1");
    return;
  }
  TomlNode::Table* table = &file;
  bool is_text = key == "name";
  while (true) {
    const size_t dot = key.find('.');
    TomlEntry& entry = Entry(*table, key.substr(0, dot));
    TomlNode& node = entry.node;
    if (dot == key.npos) {
      if (IsSaid(entry)) {
        problems.Add(
            kOption,
            fmt::format("{}: an earlier --set says a part of it, which would go", Shown(setting)),
            "write the whole table in one --set, or one --set for each key");
        return;
      }
      const std::string_view value = setting.substr(equals + 1);
      const bool is_quoted = value.starts_with('"') || value.starts_with('\'');
      if (is_text && !is_quoted) {
        node.value = std::string(value);
      } else if (value.empty()) {
        node.value = TomlNode::Absent();
      } else {
        node = ValueOf(value);
      }
      entry.line = kLineOfSet;
      entry.column = 0;
      TakeLinesAway(node);
      return;
    }
    table = std::get_if<TomlNode::Table>(&node.value);
    if (table == nullptr) {
      problems.Add(kOption,
                   fmt::format("{}: {} is not a table", Shown(setting), key.substr(0, dot)));
      return;
    }
    is_text = key.substr(0, dot) == "env";
    key.remove_prefix(dot + 1);
  }
}

}  // namespace

void SetValues(const std::vector<std::string>& settings, TomlNode::Table& file,
               Problems& problems) {
  for (const std::string& setting : settings) SetValue(setting, file, problems);
}

}  // namespace tfdist::cli
