// What only the task's own programs can tell, before anything is started: Python of its modules and of a script's syntax, a
// shell that reads the user's files of its programs. They are asked in the task's folder, with its environment.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "agent/process/run_folder.h"

namespace tfdist::agent {

class ProgramQuestions {
 public:
  // Whether the Python of `python3 -m NAME` has NAME, and the shell of `bash -lc 'NAME ...'` finds NAME. Nothing is asked twice,
  // and nothing where the task's folder is not there yet. Throws Error(kCommand) where one has not; a program that gives no
  // answer in time is another matter.
  void AskForPrograms(const RunSpec& spec);

  // Whether the script of `python3 SCRIPT.py` can be parsed, where it is there. Throws Error(kCommand) with the line that cannot.
  void AskForSyntax(const RunSpec& spec);

 private:
  std::set<std::vector<std::string>> asked_;
};

}  // namespace tfdist::agent
