#include "cli/deploy/ignore_file.h"

#include <gtest/gtest.h>

namespace tfdist::cli {
namespace {

std::optional<bool> Ignores(const char* file, const char* path, bool is_folder = false) {
  return IgnoreFile(file).Ignores(path, is_folder);
}

TEST(IgnoreFile, APatternWithoutASlashFitsAnyName) {
  EXPECT_EQ(Ignores("*.pyc", "a/b/c.pyc"), true);
  EXPECT_EQ(Ignores("data", "a/data"), true);
  EXPECT_EQ(Ignores("data", "a/data.csv"), std::nullopt);
}

TEST(IgnoreFile, APatternWithASlashIsAnchored) {
  EXPECT_EQ(Ignores("/data", "data"), true);
  EXPECT_EQ(Ignores("/data", "a/data"), std::nullopt);
  EXPECT_EQ(Ignores("a/data", "a/data"), true);
  EXPECT_EQ(Ignores("a/data", "b/a/data"), std::nullopt);
}

TEST(IgnoreFile, ASlashAtTheEndMeansFoldersAlone) {
  EXPECT_EQ(Ignores("data/", "a/data", true), true);
  EXPECT_EQ(Ignores("data/", "a/data", false), std::nullopt);
}

TEST(IgnoreFile, TheLastPatternThatFitsDecides) {
  EXPECT_EQ(Ignores("*.log\n!keep.log", "keep.log"), false);
  EXPECT_EQ(Ignores("!keep.log\n*.log", "keep.log"), true);
  EXPECT_EQ(IgnoreFile("*.log").brings_back(), false);
  EXPECT_EQ(IgnoreFile("!keep.log").brings_back(), true);
}

TEST(IgnoreFile, OnlyTwoStarsGoOverSlashes) {
  EXPECT_EQ(Ignores("a/*/c", "a/b/c"), true);
  EXPECT_EQ(Ignores("a/*/c", "a/b/b/c"), std::nullopt);
  EXPECT_EQ(Ignores("a/**/c", "a/b/b/c"), true);
  EXPECT_EQ(Ignores("a/**/c", "a/c"), true);
  EXPECT_EQ(Ignores("a/**", "a/b/c"), true);
  EXPECT_EQ(Ignores("a/**", "a", true), std::nullopt);
  EXPECT_EQ(Ignores("**/c", "a/b/c"), true);
}

TEST(IgnoreFile, CommentsSpacesAndEndsOfLinesAreGits) {
  EXPECT_EQ(Ignores("#a", "#a"), std::nullopt);
  EXPECT_EQ(Ignores("\\#a", "#a"), true);
  EXPECT_EQ(Ignores("\\!a", "!a"), true);
  EXPECT_EQ(Ignores("a  ", "a"), true);
  EXPECT_EQ(Ignores("a\\ ", "a "), true);
  EXPECT_EQ(Ignores("\xEF\xBB\xBF"
                    "a\r\n",
                    "a"),
            true);
  EXPECT_EQ(Ignores("\n/\n!\n", "a"), std::nullopt);
}

TEST(WildMatch, SetsAreGits) {
  EXPECT_TRUE(WildMatch("[a-c]x", "bx"));
  EXPECT_FALSE(WildMatch("[!a-c]x", "bx"));
  EXPECT_TRUE(WildMatch("[^a-c]x", "dx"));
  EXPECT_TRUE(WildMatch("[]-]", "]"));
  EXPECT_TRUE(WildMatch("[[:digit:]x]", "7"));
  EXPECT_FALSE(WildMatch("[[:nothing:]]", "n"));
  EXPECT_FALSE(WildMatch("[a", "a"));
  EXPECT_FALSE(WildMatch("[!a]", "/"));
  EXPECT_FALSE(WildMatch("a?b", "a/b"));
  EXPECT_FALSE(WildMatch("a\\", "a"));
}

TEST(WildMatch, ManyStarsTakeNoTime) {
  const std::string text(200, 'a');
  std::string pattern;
  for (int star = 0; star < 30; ++star) pattern += "*a";
  EXPECT_FALSE(WildMatch(pattern + "b", text));
}

}  // namespace
}  // namespace tfdist::cli
