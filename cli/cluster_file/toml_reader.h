// Typed access to one table of a cluster file. Whatever is not as expected becomes a problem, never
// an exception, and reads as if it had not been there; so one run finds all mistakes.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/cluster_file/problems.h"
#include "cli/cluster_file/toml_document.h"

namespace tfdist::cli {

// A value in any form, with its place.
struct Field {
  const TomlNode* node = nullptr;
  Where where;
};

// "text", "a whole number", ...: the form that a value has.
std::string_view FormOf(const TomlNode& node);
void ReportForm(const Field& field, std::string_view expected, Problems& problems,
                std::string hint = {});

// Text without NUL: no argument, environment value or path can hold one.
std::optional<std::string> ReadText(const Field& field, Problems& problems);
// Text without any control character: for names, addresses and paths.
std::optional<std::string> ReadLine(const Field& field, Problems& problems);
// `others`: what else the key takes, for the message: "\"auto\", or ".
std::optional<int64_t> ReadNumber(const Field& field, int64_t least, int64_t most,
                                  Problems& problems, std::string_view others = {});
const TomlNode::Table* ReadTable(const Field& field, Problems& problems, std::string hint = {});
// The elements, each with the key "hosts[2]"; nullopt when it is no array.
std::optional<std::vector<Field>> ReadArray(const Field& field, std::string_view expected,
                                            Problems& problems);
// The entries of a table with keys of the user's own.
std::vector<std::pair<std::string, Field>> Entries(const TomlNode::Table& table,
                                                   const Where& where);

class TableReader {
 public:
  // `known` are all keys that this table may have; others are reported at once, with the nearest
  // known.
  TableReader(const TomlNode::Table& table, Where where, std::span<const std::string_view> known,
              Problems& problems);

  [[nodiscard]] std::optional<Field> Find(std::string_view key) const;
  // Neither there, nor misspelled: so that one mistake is not reported twice.
  [[nodiscard]] bool Lacks(std::string_view key) const;
  // The place of `key`, or of the table when it is not there.
  [[nodiscard]] Where At(std::string_view key) const;

  std::optional<Located<std::string>> Text(std::string_view key) const;
  std::optional<Located<std::string>> Line(std::string_view key) const;
  std::optional<Located<bool>> Flag(std::string_view key) const;
  std::optional<Located<int>> Number(std::string_view key, int least, int most) const;
  std::optional<Located<std::string>> Choice(std::string_view key,
                                             std::span<const std::string_view> choices) const;
  // What the word means that stands there.
  template <typename T, size_t kSize>
  std::optional<Located<T>> Choice(std::string_view key,
                                   const std::pair<std::string_view, T> (&choices)[kSize]) const {
    std::array<std::string_view, kSize> words;
    std::ranges::transform(choices, words.begin(), [](const auto& choice) { return choice.first; });
    const auto word = Choice(key, words);
    for (const auto& [name, meaning] : choices) {
      if (word && word->value == name) return Located<T>{meaning, word->where};
    }
    return std::nullopt;
  }
  // "500ms", "2s", "5m", "1h".
  std::optional<Located<int64_t>> DurationMs(std::string_view key) const;
  // "64KiB", "1GiB", "1000MB", or bytes.
  std::optional<Located<int64_t>> SizeBytes(std::string_view key) const;
  [[nodiscard]] std::optional<TableReader> Table(std::string_view key,
                                                 std::span<const std::string_view> known) const;
  // `hint`: where it is no table.
  [[nodiscard]] const TomlNode::Table* FreeTable(std::string_view key, std::string hint = {}) const;

 private:
  void ReportUnknownKeys(std::span<const std::string_view> known);
  // Whether `key` is a bare number where `what` is expected: then a problem.
  bool LacksUnit(std::string_view key, std::string_view what, std::string_view unit) const;

  const TomlNode::Table* table_;
  Where where_;
  std::vector<std::string_view> meant_;  // known keys that unknown ones are near to
  Problems* problems_;
};

}  // namespace tfdist::cli
