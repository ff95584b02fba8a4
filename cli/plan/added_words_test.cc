#include "cli/plan/added_words.h"

#include <gmock/gmock.h>

namespace tfdist::cli {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;

using Words = std::vector<std::string>;

std::vector<Located<std::string>> Command(const Words& words) {
  std::vector<Located<std::string>> command;
  for (const std::string& word : words) command.push_back({word, {}});
  return command;
}

// Of `command` with the words "a" and "b"; fails the test where that is a problem.
Words Added(const Words& words) {
  auto command = Command(words);
  Problems problems;
  AddWords({"a", "b"}, command, problems);
  EXPECT_TRUE(problems.empty()) << testing::PrintToString(words);
  Words added;
  for (const auto& word : command) added.push_back(word.value);
  return added;
}

bool IsRefused(const Words& words) {
  auto command = Command(words);
  Problems problems;
  AddWords({"a"}, command, problems);
  return !problems.empty();
}

TEST(AddedWords, FollowAProgram) {
  EXPECT_THAT(Added({"python3", "train.py"}), ElementsAre("python3", "train.py", "a", "b"));
  EXPECT_THAT(Added({"bash", "run.sh", "-c", "1"}),
              ElementsAre("bash", "run.sh", "-c", "1", "a", "b"));
  EXPECT_THAT(Added({"python3", "-c", "print(1)"}),
              ElementsAre("python3", "-c", "print(1)", "a", "b"));
}

TEST(AddedWords, AreTheParametersOfAScript) {
  for (const Words& command :
       {Words{"bash", "-lc", "exec python3 train.py \"$@\""},
        Words{"env", "A=1", "sh", "-c", "run $1"},
        Words{"/bin/bash", "-l", "-o", "pipefail", "-c", "run '$1' \"'${2}'\""},
        Words{"bash", "-euo", "pipefail", "-c", "run \"$@\""},
        Words{"bash", "-ceuo", "pipefail", "run \"$@\""}, Words{"sh", "-c", "# don't\nrun \"$@\""},
        Words{"sh", "-c", "for word do run $word; done"},
        Words{"su", "-", "trainer", "-c", "while getopts x o; do run; done"}}) {
    Words expected = command;
    expected.push_back(command[0] == "env" ? "sh" : command[0]);
    expected.insert(expected.end(), {"a", "b"});
    EXPECT_THAT(Added(command), ElementsAreArray(expected));
  }
}

TEST(AddedWords, FollowTheNameThatAScriptHas) {
  EXPECT_THAT(Added({"sh", "-c", "run \"$@\"", "me"}),
              ElementsAre("sh", "-c", "run \"$@\"", "me", "a", "b"));
  EXPECT_THAT(Added({"sh", "-c", "run $0 $1"}), ElementsAre("sh", "-c", "run $0 $1", "a", "b"));
  EXPECT_THAT(Added({"fish", "-c", "run $argv"}), ElementsAre("fish", "-c", "run $argv", "a", "b"));
}

TEST(AddedWords, ThatAScriptWouldNotReadAreRefused) {
  EXPECT_TRUE(IsRefused({"bash", "-lc", "module load cuda && exec python3 train.py"}));
  EXPECT_TRUE(IsRefused({"sh", "-c", "ls | awk '{print $1}'"}));
  EXPECT_TRUE(IsRefused({"sh", "-c", "echo \\$1 $HOME $? $$"}));
  EXPECT_TRUE(IsRefused({"conda", "run", "bash", "-ec", "python train.py"}));
  EXPECT_TRUE(IsRefused({"bash", "-euo", "pipefail", "-c", "python train.py"}));
  EXPECT_TRUE(IsRefused({"sh", "-c", "for x in 1 2; do run $x; done"}));
  EXPECT_TRUE(IsRefused({"fish", "-c", "python train.py"}));
}

}  // namespace
}  // namespace tfdist::cli
