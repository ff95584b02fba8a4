#include "cli/cluster_file/toml_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cli/cluster_file/known_keys.h"
#include "cli/cluster_file/nearest.h"
#include "cli/cluster_file/quantity.h"

namespace tfdist::cli {
namespace {

// What sleeps and waits are counted in; more than a year is a slip of the pen.
constexpr int64_t kLongestMs = int64_t{366} * 24 * 3600 * 1000;
constexpr int64_t kLargestBytes = int64_t{1} << 50;

// In the order of TomlNode::value.
constexpr std::string_view kForms[] = {"text",          "a whole number", "a number with a point",
                                       "true or false", "a date or time", "a list",
                                       "a table",       "nothing"};

bool IsThere(const TomlEntry& entry) {
  return !std::holds_alternative<TomlNode::Absent>(entry.node.value);
}

bool IsControl(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

std::string Number(int64_t value) { return std::to_string(value); }

}  // namespace

std::string_view FormOf(const TomlNode& node) { return kForms[node.value.index()]; }

void ReportForm(const Field& field, std::string_view expected, Problems& problems,
                std::string hint) {
  constexpr std::string_view kAuto[] = {"auto"};
  const auto* text = std::get_if<std::string>(&field.node->value);
  if (text != nullptr && expected.starts_with("\"auto\"")) {
    if (std::string meant = DidYouMean(*text, kAuto); !meant.empty()) hint = std::move(meant);
  }
  problems.Add(field.where, fmt::format("expected {}, got {}", expected, FormOf(*field.node)),
               std::move(hint));
}

std::optional<std::string> ReadText(const Field& field, Problems& problems) {
  const auto* text = std::get_if<std::string>(&field.node->value);
  if (text == nullptr) {
    ReportForm(field, "text in quotes", problems);
    return std::nullopt;
  }
  if (text->find('\0') != std::string::npos) {
    problems.Add(field.where, "holds a NUL character, which no argument, variable or path can");
    return std::nullopt;
  }
  return *text;
}

std::optional<std::string> ReadLine(const Field& field, Problems& problems) {
  std::optional<std::string> text = ReadText(field, problems);
  if (text && text->empty()) {
    problems.Add(field.where, "expected text, got an empty one",
                 field.where.line == kLineOfSet
                     ? fmt::format("--set {}= takes the key out", field.where.key)
                     : "");
    return std::nullopt;
  }
  if (text && std::any_of(text->begin(), text->end(), IsControl)) {
    problems.Add(field.where, fmt::format("{} holds a control character", Quoted(*text)));
    return std::nullopt;
  }
  return text;
}

std::optional<int64_t> ReadNumber(const Field& field, int64_t least, int64_t most,
                                  Problems& problems, std::string_view others) {
  const std::string expected = fmt::format("{}a whole number from {} to {}", others, least, most);
  const auto* number = std::get_if<int64_t>(&field.node->value);
  if (number == nullptr) {
    ReportForm(field, expected, problems);
    return std::nullopt;
  }
  if (*number < least || *number > most) {
    problems.Add(field.where, fmt::format("expected {}, got {}", expected, Number(*number)));
    return std::nullopt;
  }
  return *number;
}

const TomlNode::Table* ReadTable(const Field& field, Problems& problems, std::string hint) {
  const auto* table = std::get_if<TomlNode::Table>(&field.node->value);
  if (table == nullptr) ReportForm(field, "a table", problems, std::move(hint));
  return table;
}

std::optional<std::vector<Field>> ReadArray(const Field& field, std::string_view expected,
                                            Problems& problems) {
  const auto* array = std::get_if<TomlNode::Array>(&field.node->value);
  if (array == nullptr) {
    ReportForm(field, expected, problems);
    return std::nullopt;
  }
  std::vector<Field> elements;
  elements.reserve(array->size());
  for (const TomlNode& node : *array) {
    const std::string key = fmt::format("{}[{}]", field.where.key, elements.size());
    elements.push_back({&node, {node.line, node.column, key}});
  }
  return elements;
}

std::vector<std::pair<std::string, Field>> Entries(const TomlNode::Table& table,
                                                   const Where& where) {
  std::vector<std::pair<std::string, Field>> entries;
  entries.reserve(table.size());
  for (const TomlEntry& entry : table) {
    if (!IsThere(entry)) continue;
    Where place = where.Below(entry.key);
    place.line = entry.line;
    place.column = entry.column;
    entries.emplace_back(entry.key, Field{&entry.node, std::move(place)});
  }
  return entries;
}

TableReader::TableReader(const TomlNode::Table& table, Where where,
                         std::span<const std::string_view> known, Problems& problems)
    : table_(&table), where_(std::move(where)), problems_(&problems) {
  ReportUnknownKeys(known);
}

void TableReader::ReportUnknownKeys(std::span<const std::string_view> known) {
  for (const TomlEntry& entry : *table_) {
    if (std::find(known.begin(), known.end(), entry.key) != known.end()) continue;
    const std::string_view nearest = NearestWord(entry.key, known);
    if (!nearest.empty()) meant_.push_back(nearest);
    problems_->Add(At(entry.key), "unknown key", HintForUnknownKey(entry.key, known));
  }
}

std::optional<Field> TableReader::Find(std::string_view key) const {
  for (const TomlEntry& entry : *table_) {
    if (entry.key == key && IsThere(entry)) return Field{&entry.node, At(key)};
  }
  return std::nullopt;
}

bool TableReader::Lacks(std::string_view key) const {
  return !Find(key) && std::find(meant_.begin(), meant_.end(), key) == meant_.end();
}

Where TableReader::At(std::string_view key) const {
  Where where = where_.Below(key);
  for (const TomlEntry& entry : *table_) {
    if (entry.key != key) continue;
    where.line = entry.line;
    where.column = entry.column;
  }
  return where;
}

std::optional<Located<std::string>> TableReader::Text(std::string_view key) const {
  const std::optional<Field> field = Find(key);
  if (!field) return std::nullopt;
  std::optional<std::string> text = ReadText(*field, *problems_);
  if (!text) return std::nullopt;
  return Located<std::string>{*std::move(text), field->where};
}

std::optional<Located<std::string>> TableReader::Line(std::string_view key) const {
  const std::optional<Field> field = Find(key);
  if (!field) return std::nullopt;
  std::optional<std::string> text = ReadLine(*field, *problems_);
  if (!text) return std::nullopt;
  return Located<std::string>{*std::move(text), field->where};
}

std::optional<Located<bool>> TableReader::Flag(std::string_view key) const {
  const std::optional<Field> field = Find(key);
  if (!field) return std::nullopt;
  if (const auto* flag = std::get_if<bool>(&field->node->value)) {
    return Located<bool>{*flag, field->where};
  }
  ReportForm(*field, "true or false", *problems_);
  return std::nullopt;
}

std::optional<Located<int>> TableReader::Number(std::string_view key, int least, int most) const {
  const std::optional<Field> field = Find(key);
  if (!field) return std::nullopt;
  const std::optional<int64_t> number = ReadNumber(*field, least, most, *problems_);
  if (!number) return std::nullopt;
  return Located<int>{static_cast<int>(*number), field->where};
}

std::optional<Located<std::string>> TableReader::Choice(
    std::string_view key, std::span<const std::string_view> choices) const {
  const std::optional<Field> field = Find(key);
  if (field && !std::holds_alternative<std::string>(field->node->value)) {
    ReportForm(*field, OneOf(choices), *problems_);
    return std::nullopt;
  }
  std::optional<Located<std::string>> text = Text(key);
  if (!text || std::find(choices.begin(), choices.end(), text->value) != choices.end()) return text;
  problems_->Add(text->where,
                 fmt::format("expected {}, got {}", OneOf(choices), Quoted(text->value)),
                 DidYouMean(text->value, choices));
  return std::nullopt;
}

// "deadline = 5": of what?
bool TableReader::LacksUnit(std::string_view key, std::string_view what,
                            std::string_view unit) const {
  const std::optional<Field> field = Find(key);
  const auto* number = field ? std::get_if<int64_t>(&field->node->value) : nullptr;
  if (number == nullptr) return false;
  problems_->Add(field->where, fmt::format("expected {} with its unit, got {}", what, *number),
                 fmt::format("write \"{}{}\"", *number, unit));
  return true;
}

std::optional<Located<int64_t>> TableReader::DurationMs(std::string_view key) const {
  if (LacksUnit(key, "a duration", "s")) return std::nullopt;
  const std::optional<Located<std::string>> text = Text(key);
  if (!text) return std::nullopt;
  const std::optional<int64_t> duration = ParseDurationMs(text->value);
  if (duration && *duration <= kLongestMs) return Located<int64_t>{*duration, text->where};
  problems_->Add(text->where, fmt::format("expected a duration of at most a year, such as \"2s\" "
                                          "(units: {}), got {}",
                                          DurationUnits(), Quoted(text->value)));
  return std::nullopt;
}

std::optional<Located<int64_t>> TableReader::SizeBytes(std::string_view key) const {
  if (LacksUnit(key, "a size", "MiB")) return std::nullopt;
  const std::optional<Located<std::string>> text = Text(key);
  if (!text) return std::nullopt;
  const std::optional<int64_t> size = ParseSizeBytes(text->value);
  if (size && *size > 0 && *size <= kLargestBytes) return Located<int64_t>{*size, text->where};
  problems_->Add(text->where, fmt::format("expected a size such as \"1GiB\" (units: {}), got {}",
                                          SizeUnits(), Quoted(text->value)));
  return std::nullopt;
}

const TomlNode::Table* TableReader::FreeTable(std::string_view key, std::string hint) const {
  const std::optional<Field> field = Find(key);
  return field ? ReadTable(*field, *problems_, std::move(hint)) : nullptr;
}

std::optional<TableReader> TableReader::Table(std::string_view key,
                                              std::span<const std::string_view> known) const {
  const TomlNode::Table* table = FreeTable(
      key,
      fmt::format("the keys of [{}]: {}", At(key).key, fmt::to_string(fmt::join(known, ", "))));
  if (table == nullptr) return std::nullopt;
  return TableReader(*table, At(key), known, *problems_);
}

}  // namespace tfdist::cli
