// What only the task's own programs can tell, before anything is started: Python and shells of the script that they are to run,
// Python of its modules, a shell that reads the user's files of its programs. They are asked in the task's folder, with its
// environment.
#pragma once

#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "agent/process/run_folder.h"

namespace tfdist::agent {

inline constexpr const char* kScriptRemedy =
    "the path counts on that host: write one below the workdir, as python3 train.py, or copy the "
    "file there";

class ProgramQuestions {
 public:
  // Whether the Python of `python3 -m NAME` has NAME, and the shell of `bash -lc 'NAME ...'` finds NAME. Nothing is asked twice,
  // and nothing where the task's folder is not there yet. Throws Error(kCommand) where one has not; a program that gives no
  // answer in time is another matter.
  void AskForPrograms(const RunSpec& spec);

  // Whether `python3 SCRIPT` and `bash SCRIPT` can open SCRIPT, as the task's own program sees it: it may be one that enters an
  // image first. Words that are not known yet hold kUnknown; `is_to_come`: what the job is yet to bring. Throws Error(kCommand)
  // that says why not, with `remedy`.
  void AskForScript(
      const RunSpec& spec, const std::string& remedy,
      const std::function<bool(const std::filesystem::path&)>& is_to_come =
          [](const std::filesystem::path&) { return false; });

  // Whether Python or the shell can parse the script that it opens, and Python takes its options. Throws Error(kCommand) with the
  // line that cannot be parsed.
  void AskForSyntax(const RunSpec& spec);

 private:
  void AskForShellSyntax(const RunSpec& spec, const std::string& script);

  std::set<std::vector<std::string>> asked_;
};

}  // namespace tfdist::agent
