#include "cli/show/known_end.h"

#include <fmt/format.h>

namespace tfdist::cli {
namespace {

std::string_view LastLineOf(std::string_view lines) {
  while (lines.ends_with('\n') || lines.ends_with('\r')) lines.remove_suffix(1);
  const size_t before = lines.rfind('\n');
  return before == lines.npos ? lines : lines.substr(before + 1);
}

// Python's.
bool AskedForInput(std::string_view line) {
  return line == "EOFError: EOF when reading a line" || line == "bdb.BdbQuit";
}

}  // namespace

std::string RemedyForEnd(std::string_view lines) {
  constexpr std::string_view kNoModule = "ModuleNotFoundError: No module named ";
  const std::string_view line = LastLineOf(lines);
  if (line.starts_with(kNoModule)) {
    return fmt::format(
        "a package: install {} in the Python of the hosts, or name the environment "
        "that has it (venv = \"~/NAME\" in [task], --set task.venv=~/NAME); a file of "
        "yours: is it in the workdir?",
        line.substr(kNoModule.size()));
  }
  if (AskedForInput(line)) {
    return "a task has no input: pass what it asks for as an argument, after --; a debugger works "
           "in tfdist shell";
  }
  return "";
}

}  // namespace tfdist::cli
