#include "base/inner_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"

namespace tfdist {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

using Words = std::vector<std::string>;

// The innermost command of words that are parted by blanks.
std::string Innermost(std::string_view command) {
  Words words;
  while (!command.empty()) words.emplace_back(TakeUpTo(' ', command));
  std::string text;
  for (const std::string& word : InnermostOf(words)) text += (text.empty() ? "" : " ") + word;
  return text;
}

std::string InShell(const std::string& script) {
  const auto inner = InnerOf({"sh", "-c", script});
  return inner ? inner->words[0] : "";
}

TEST(InnerCommand, SeesThroughProgramsThatRunAnotherOne) {
  for (const char* const outer : {"env",
                                  "env A=1 B=2",
                                  "env -i A=1",
                                  "env -u A",
                                  "/usr/bin/env --unset=A --",
                                  "nohup",
                                  "nice",
                                  "nice -n 5",
                                  "nice -5",
                                  "nice --adjustment 5",
                                  "timeout 5",
                                  "timeout -s KILL -k5 --foreground 1h",
                                  "timeout --signal=KILL 5",
                                  "stdbuf -oL",
                                  "stdbuf -o L --error=0",
                                  "setsid -w",
                                  "ionice -c 3",
                                  "taskset -c 0-3",
                                  "time -v",
                                  "env A=1 nohup nice timeout 5"}) {
    EXPECT_EQ(Innermost(std::string(outer) + " pyhton3 -u train.py"), "pyhton3 -u train.py")
        << outer;
  }
}

TEST(InnerCommand, SaysNothingWhereItIsNotSure) {
  for (const char* const command :
       {"env", "env -S python3", "env -C /tmp python3", "env -u PATH python3", "nohup --help",
        "timeout 5", "taskset -p 17", "setsid --version", "python3 env", "sh run.sh",
        "bash -lc train", "sh -s train"}) {
    EXPECT_EQ(Innermost(command), command);
  }
}

TEST(InnerCommand, OfAShellThatReadsFilesOfTheUsersIsAMatterOfItsOwn) {
  for (const char* const options : {"-lc", "-l -c", "-ic", "-c", "-elc", "-lo pipefail -c"}) {
    std::vector<std::string> words = {"bash"};
    for (std::string_view rest = options; !rest.empty();) words.emplace_back(TakeUpTo(' ', rest));
    words.emplace_back("pyhton3 train.py");
    const auto inner = InnerOfUsersShell(words);
    ASSERT_TRUE(inner) << options;
    EXPECT_THAT(inner->words, ElementsAre("pyhton3", "train.py"));
  }
  EXPECT_FALSE(InnerOfUsersShell({"bash", "-lc", "module load x && train"}));
  EXPECT_FALSE(InnerOfUsersShell({"zsh", "-lc", "train"}));
  EXPECT_FALSE(InnerOfUsersShell({"nohup", "bash", "-lc", "train"}));
}

TEST(InnerCommand, FindsTheScriptOfPython) {
  EXPECT_EQ(PythonScriptOf({"python3", "train.py", "-m"}), "train.py");
  EXPECT_EQ(PythonScriptOf({"/usr/bin/python3", "-uW", "ignore", "-X", "dev", "train.py"}),
            "train.py");
  for (const Words& words :
       {Words{"python3", "-m", "train"}, Words{"python3", "-c", "train.py"}, Words{"python3", "-"},
        Words{"python3"}, Words{"sh", "train.py"}, Words{"python-launcher", "train.py"}}) {
    EXPECT_FALSE(PythonScriptOf(words));
  }
}

TEST(InnerCommand, FindsTheOptionOfPythonThatIsNotKnown) {
  EXPECT_EQ(OddPythonOptionOf({"python3", "-u", "-Z", "train.py"}), "-Z");
  EXPECT_EQ(OddPythonOptionOf({"python3", "--versoin"}), "--versoin");
  for (const Words& words : {Words{"python3", "-u", "train.py", "-Z"}, Words{"python3", "-uc", "1"},
                             Words{"python3", "-"}, Words{"python3", "-Wignore", "-m", "x"},
                             Words{"python3-config", "-Z"}, Words{"python3"}}) {
    EXPECT_FALSE(OddPythonOptionOf(words));
  }
}

TEST(InnerCommand, FindsTheScriptOfAShell) {
  for (const Words& words :
       {Words{"bash", "run.sh", "-c"}, Words{"/bin/sh", "-eu", "+x", "-o", "pipefail", "run.sh"},
        Words{"bash", "--norc", "--", "run.sh"}, Words{"dash", "-l", "run.sh"}}) {
    EXPECT_EQ(ShellScriptOf(words), "run.sh");
  }
  for (const Words& words :
       {Words{"bash", "-c", "run.sh"}, Words{"bash", "-s", "x"}, Words{"bash", "-"}, Words{"bash"},
        Words{"bash", "--rcfile", "x", "run.sh"}, Words{"python3", "run.sh"},
        Words{"bash", std::string("a\0", 2)}}) {
    EXPECT_FALSE(ShellScriptOf(words));
  }
}

TEST(InnerCommand, GivesWhatEnvSets) {
  const auto inner = InnerOf({"env", "-i", "PATH=/opt/bin", "python3"});
  ASSERT_TRUE(inner);
  EXPECT_TRUE(inner->clears_environment);
  EXPECT_THAT(inner->set, ElementsAre("PATH=/opt/bin"));
}

TEST(InnerCommand, SeesThroughAShellWithOneSimpleCommand) {
  for (const char* const script :
       {"pyhton3 train.py", " exec pyhton3 train.py;\n",
        "A=1 B=$C pyhton3 $HOME/x 'a b' \"$D;|\" *.py", "'pyhton3'", "pyhton3 train.py >log 2>&1",
        "pyhton3 x &> log", ">log pyhton3 <in", "py\\hton3 a\\;b"}) {
    EXPECT_EQ(InShell(script), "pyhton3") << script;
  }
  EXPECT_EQ(InnerOf({"bash", "-eu", "-o", "pipefail", "-c", "a 2>x 3"})->words, (Words{"a", "3"}));
  EXPECT_EQ(InnermostOf({"sh", "-c", "exec env A=1 python3 -m trian"}),
            (Words{"python3", "-m", "trian"}));
}

TEST(InnerCommand, LeavesWhatOnlyTheShellKnows) {
  for (const char* const script : {"",           "A=1",         "$PYTHON train.py",
                                   "a || b",     "a && b",      "a; b",
                                   "a\nb",       "a | b",       "a &",
                                   "(a)",        "{ a; }",      "if a; then b; fi",
                                   "cd x",       "set -e",      "echo a",
                                   "test -e x",  "`a`",         "a $(b)",
                                   "a \"$(b)\"", "a <<E\nE",    "'a",
                                   "PATH=$X a",  "exec -a b c", "~/bin/a",
                                   "# a",        "py*"}) {
    EXPECT_EQ(InShell(script), "") << script;
  }
}

TEST(InnerCommand, FindsTheProgramThatRunsItsInput) {
  for (const Words& words :
       {Words{"python3"}, Words{"python3", "-"}, Words{"python3", "-", "x.py"},
        Words{"python3", "-iu"}, Words{"python3", "-W", "ignore", "-u", "-i"},
        Words{"python3", "/dev/stdin"}, Words{"env", "A=1", "nohup", "python3"},
        Words{"sh", "-c", "exec python3 -u >log"}, Words{"bash", "-lc", "python3"}}) {
    EXPECT_EQ(ReaderOfInput(words), "python3");
  }
  for (const Words& words :
       {Words{"bash"}, Words{"bash", "-"}, Words{"bash", "-il"}, Words{"bash", "--login"},
        Words{"bash", "-s", "x"}, Words{"bash", "-es"}, Words{"bash", "-o", "pipefail"}}) {
    EXPECT_EQ(ReaderOfInput(words), "bash");
  }
  EXPECT_EQ(ReaderOfInput({"/usr/bin/node"}), "/usr/bin/node");
  for (const Words& words :
       {Words{"python3", "x.py"}, Words{"python3", "-c", "1"}, Words{"python3", "-m", "x"},
        Words{"python3", "-i", "x.py"}, Words{"python3", "-V"}, Words{"python3", "--version"},
        Words{"python3", std::string("a\0", 2)}, Words{"python3-config"}, Words{"bash", "run.sh"},
        Words{"bash", "-c", "true"}, Words{"bash", "--version"}, Words{"bash", "--rcfile", "x"},
        Words{"sh", "-c", "python3 <x.py"}, Words{"sh", "-c", "python3 - <<E\n1\nE"},
        Words{"bash", "-lc", "cat x | python3"}, Words{"node", "x.js"}, Words{"sleep"}, Words{}}) {
    EXPECT_EQ(ReaderOfInput(words), "");
  }
}

TEST(InnerCommand, FindsTheModuleOfPython) {
  const auto package = [](const Words& words) {
    const auto module = PythonModuleOf(words);
    return module ? module->package : "";
  };
  EXPECT_EQ(package({"python3", "-m", "trian"}), "trian");
  EXPECT_EQ(package({"/opt/bin/python3.11", "-um", "a.b", "-m", "c"}), "a");
  EXPECT_EQ(package({"python", "-W", "ignore", "-Xdev", "-mtrian"}), "trian");
  EXPECT_THAT(PythonModuleOf({"python3", "-I", "-m", "x"})->options, ElementsAre("-I"));
  for (const Words& none :
       {Words{"python3"}, Words{"python3", "x.py", "-m", "y"}, Words{"python3", "-c", "1"},
        Words{"perl", "-m", "x"}, Words{"python3", "-m"},
        Words{"python3", "-m", std::string("a\0", 2)}}) {
    EXPECT_THAT(package(none), IsEmpty());
  }
}

}  // namespace
}  // namespace tfdist
