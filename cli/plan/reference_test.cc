// configs/README.md is the reference of the cluster file: it has each key in its section, and no other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/testing/test_paths.h"
#include "cli/cluster_file/known_keys.h"

namespace tfdist::cli {
namespace {

using testing::IsEmpty;

struct Section {
  std::string_view heading;                             // how its line begins
  std::vector<std::span<const std::string_view>> keys;  // of its tables
};

const std::vector<Section> kSections = {
    {"### Top of the file", {kTopKeys}},
    {"### `[cluster]`", {kClusterKeys, kHostKeys}},
    {"### `[task]`", {kTaskKeys}},
    {"### `[roles.NAME]`", {kRoleKeys}},
    {"### `[setup]`", {kSetUpKeys}},
    {"### `[data]`", {kDataKeys}},
    {"### `[restart]`", {kRestartKeys}},
    {"### `[ssh]`", {kSshKeys}},
    {"### `[control]`", {kControlKeys}},
    {"### `[check]`", {kCheckKeys}},
    {"### `[tensorboard]`", {kTensorBoardKeys}},
};

std::string TextOf(const Section& section) {
  const std::string page =
      ReadFileIfExists(TestSourceDir() / "configs/README.md", 1 << 20).value_or("");
  const size_t begin = page.find(std::string("\n").append(section.heading));
  if (begin == page.npos) return {};
  return page.substr(begin, page.find("\n#", begin + 1) - begin);
}

// What stands in backticks.
std::vector<std::string> CodeIn(std::string_view text) {
  std::vector<std::string> words;
  for (size_t begin = text.find('`'); begin != text.npos; begin = text.find('`')) {
    text.remove_prefix(begin + 1);
    const size_t end = text.find('`');
    words.emplace_back(text.substr(0, end));
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
  }
  return words;
}

// Of the tables whose first column is called "key".
std::vector<std::string> KeysInTables(const std::string& text) {
  std::vector<std::string> keys;
  bool in_table = false;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    in_table = line.starts_with("| key |") || (in_table && line.starts_with("| "));
    const std::string cell = line.substr(0, line.find('|', 1));
    for (std::string& word : CodeIn(in_table ? cell : "")) keys.push_back(std::move(word));
  }
  return keys;
}

bool IsKnown(const Section& section, const std::string& key) {
  return std::ranges::any_of(section.keys,
                             [&](auto keys) { return std::ranges::find(keys, key) != keys.end(); });
}

// A table of the file.
bool HasSection(std::string_view key) {
  return std::ranges::any_of(kSections, [&](const Section& section) {
    return section.heading.starts_with(std::string("### `[").append(key));
  });
}

// "policy" of "NAME = { policy = POLICY, limit = 3 }".
bool Names(const std::string& code, std::string_view key) {
  return code == key || code.find(std::string(key) + " =") != code.npos;
}

TEST(Reference, HasEachKeyInItsSection) {
  for (const Section& section : kSections) {
    const std::string text = TextOf(section);
    ASSERT_FALSE(text.empty()) << section.heading;
    const std::vector<std::string> code = CodeIn(text);
    for (const auto& keys : section.keys) {
      for (const std::string_view key : keys) {
        if (HasSection(key)) continue;
        EXPECT_TRUE(std::ranges::any_of(code, [&](const auto& c) { return Names(c, key); }))
            << section.heading << " lacks " << key;
      }
    }
  }
}

TEST(Reference, HasNoOtherKey) {
  for (const Section& section : kSections) {
    std::vector<std::string> unknown = KeysInTables(TextOf(section));
    std::erase_if(unknown, [&](const std::string& key) { return IsKnown(section, key); });
    EXPECT_THAT(unknown, IsEmpty()) << section.heading;
  }
}

}  // namespace
}  // namespace tfdist::cli
