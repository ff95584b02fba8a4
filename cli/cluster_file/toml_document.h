// A TOML text as a plain tree: each value with its place, keys in the order of the file (toml++
// sorts them). Keeps <toml++/toml.h> out of every other file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace tfdist::cli {

struct TomlEntry;

struct TomlNode {
  struct Date {};    // a date, a time, or both: nothing in a cluster file is one
  struct Absent {};  // `--set KEY=`: reads as if the file did not have the key
  using Array = std::vector<TomlNode>;
  using Table = std::vector<TomlEntry>;

  int line = 0;
  int column = 0;
  std::variant<std::string, int64_t, double, bool, Date, Array, Table, Absent> value;
};

struct TomlEntry {
  std::string key;
  int line = 0;  // of the key; the value has its own
  int column = 0;
  TomlNode node;
};

// What is no TOML. toml++ stops at the first such place, so there is one.
struct TomlSyntaxError {
  int line = 0;
  int column = 0;
  std::string message;
};

std::variant<TomlNode::Table, TomlSyntaxError> ParseToml(std::string_view text);

}  // namespace tfdist::cli
