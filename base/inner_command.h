// What a command runs in the end: `env A=1 nice python3 -m train` and `sh -c 'python3 -m train'` run python3.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tfdist {

// Stands in a word for what is not known before the command runs: "$HOME/x" of a shell, say.
inline constexpr char kUnknown = '\0';

struct InnerCommand {
  std::vector<std::string> words;  // not empty; the program is known
  std::vector<std::string> set;    // "NAME=value", over the variables of the outer one
  bool clears_environment = false;
  bool sets_input = false;  // "<file"
  bool by_shell =
      false;  // which may have another program in its place: BASH_ENV, exported functions
};

// What the first word runs: env, nohup, nice, timeout, stdbuf, setsid and their like, and a shell that is given one simple
// command. nullopt: none of these, or nothing sure, as where options are not known or the shell's own words run.
std::optional<InnerCommand> InnerOf(const std::vector<std::string>& words);

// The same of a shell that reads files of the user's first, as `bash -lc 'python3 train.py'`: those decide where programs are
// looked for.
std::optional<InnerCommand> InnerOfUsersShell(const std::vector<std::string>& words);

// InnerOf again and again; `words` itself where nothing is within.
std::vector<std::string> InnermostOf(std::vector<std::string> words);

// Of `python3 -u -m package.train`.
struct PythonModule {
  std::vector<std::string> options;  // of python, in front of -m
  std::string name;                  // "package.train"
  std::string package;               // the first of its names
};
std::optional<PythonModule> PythonModuleOf(const std::vector<std::string>& words);

// "train.py" of `python3 -u train.py`.
std::optional<std::string> PythonScriptOf(const std::vector<std::string>& words);

// "-Z" of `python3 -u -Z train.py`: an option that is not known here, and perhaps not to that Python.
std::optional<std::string> OddPythonOptionOf(const std::vector<std::string>& words);

// "run.sh" of `bash -eu run.sh`.
std::optional<std::string> ShellScriptOf(const std::vector<std::string>& words);

// The program that runs what it reads from its standard input: python3 of `python3 -u` and `nice python3 -`, bash of `bash -l`.
// Empty: there is none, or its input is another.
std::string ReaderOfInput(std::vector<std::string> words);

// A word that a shell runs itself, as cd, source, ulimit or `for`; a few are programs, too.
bool IsShellWord(std::string_view word);

// "LR=0.1", as in a shell.
bool IsAssignment(std::string_view word);

}  // namespace tfdist
