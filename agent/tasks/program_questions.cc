#include "agent/tasks/program_questions.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <initializer_list>
#include <utility>

#include "agent/tasks/command_search.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/inner_command.h"
#include "base/subprocess.h"

namespace tfdist::agent {
namespace {

constexpr int kNo = 86;  // no program ends so by itself
constexpr std::chrono::seconds kLimit{10};

// env(1) looks for the program in the task's PATH.
std::vector<std::string> Question(const RunSpec& spec, const std::vector<std::string>& options,
                                  std::initializer_list<std::string> words) {
  std::vector<std::string> argv = {"env"};
  const bool is_below = spec.argv[0].find('/') != std::string::npos;
  argv.push_back(is_below ? (std::filesystem::path(spec.cwd) / spec.argv[0]).string()
                          : spec.argv[0]);
  argv.insert(argv.end(), options.begin(), options.end());
  argv.insert(argv.end(), words);
  return argv;
}

std::vector<std::string> QuestionForModule(const RunSpec& spec, const PythonModule& module) {
  constexpr const char* kProgram =
      "import os, sys\n"
      "from importlib.util import find_spec\n"
      "os.chdir(sys.argv[1])\n"
      "sys.exit(86 if find_spec(sys.argv[2]) is None else 0)\n";
  return Question(spec, module.options, {"-c", kProgram, spec.cwd, module.package});
}

// It says where: "line 3: invalid syntax".
std::vector<std::string> QuestionForSyntax(const RunSpec& spec, const std::string& script) {
  constexpr const char* kProgram =
      "import sys\n"
      "try:\n"
      "    with open(sys.argv[1], 'rb') as script:\n"
      "        compile(script.read(), sys.argv[1], 'exec', dont_inherit=True)\n"
      "except SyntaxError as error:\n"
      "    print('line {}: {}'.format(error.lineno, error.msg))\n"
      "    sys.exit(86)\n"
      "except Exception:\n"
      "    pass\n";
  return Question(spec, {"-I", "-S", "-W", "ignore"},
                  {"-c", kProgram, std::filesystem::path(spec.cwd) / script});
}

// With all options but -c, so that it reads the same files. `$0` is the program.
std::vector<std::string> QuestionForProgram(const RunSpec& shell, const std::string& program) {
  constexpr const char* kScript = "command -v -- \"$0\" >/dev/null 2>&1 || exit 86";
  std::vector<std::string> options;
  for (size_t at = 1; at < shell.argv.size() && shell.argv[at].starts_with('-'); ++at) {
    options.push_back(shell.argv[at]);
    if (shell.argv[at].find('o') != std::string::npos) options.push_back(shell.argv[++at]);
  }
  return Question(shell, options, {kScript, program});
}

bool SaysNo(const RunSpec& spec, const std::vector<std::string>& question,
            ProgramResult* said = nullptr) {
  ProgramResult result =
      RunProgram({.argv = question, .environment = spec.env}, SystemClock().Now() + kLimit);
  const bool is_no = !result.timed_out && result.exit_code == kNo;
  if (said != nullptr) *said = std::move(result);
  return is_no;
}

[[noreturn]] void Refuse(const RunSpec& spec, const std::string& why, std::string remedy) {
  throw Error(Phase::kCommand, fmt::format("command of {}: {}", spec.task, why), std::move(remedy));
}

void AskShell(const RunSpec& shell, std::set<std::vector<std::string>>& asked) {
  const auto inner = InnerOfUsersShell(shell.argv);
  if (!inner || !inner->set.empty()) return;
  const std::string& program = inner->words[0];
  if (program.find('/') != std::string::npos) return;
  const auto question = QuestionForProgram(shell, program);
  if (!asked.insert(question).second || !SaysNo(shell, question)) return;
  Refuse(
      shell, fmt::format("{} {} does not find {}", shell.argv[0], shell.argv[1], program),
      "is its name right? The start-up files of that shell set its PATH, and are not those of the "
      "shell that you type in");
}

}  // namespace

void ProgramQuestions::AskForPrograms(const RunSpec& spec) {
  if (WhyNotEntered(spec.cwd)) return;
  const RunSpec innermost = InnermostSpec(spec);
  AskShell(innermost, asked_);
  const auto module = PythonModuleOf(innermost.argv);
  if (!module) return;
  const auto question = QuestionForModule(innermost, *module);
  if (!asked_.insert(question).second || !SaysNo(innermost, question)) return;
  Refuse(spec, fmt::format("{} has no module {}", innermost.argv[0], module->package),
         "is it in the folder where the task starts, or installed for that Python? `venv` in "
         "[task] names a Python environment");
}

void ProgramQuestions::AskForSyntax(const RunSpec& spec) {
  const RunSpec innermost = InnermostSpec(spec);
  const auto script = PythonScriptOf(innermost.argv);
  if (!script || !script->ends_with(".py")) return;  // an archive, or compiled
  const auto question = QuestionForSyntax(innermost, *script);
  ProgramResult said;
  if (!asked_.insert(question).second || !SaysNo(innermost, question, &said)) return;
  std::string where = said.output;
  while (where.ends_with('\n')) where.pop_back();
  Refuse(
      spec, fmt::format("{}, {}", *script, where),
      fmt::format("correct it; {} -m py_compile {} shows the place", innermost.argv[0], *script));
}

}  // namespace tfdist::agent
