#include "agent/tasks/program_questions.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <initializer_list>
#include <string_view>
#include <system_error>
#include <utility>

#include "agent/tasks/command_search.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/inner_command.h"
#include "base/subprocess.h"
#include "base/text.h"

namespace tfdist::agent {
namespace {

constexpr int kNo = 86;  // no program ends so by itself
constexpr std::chrono::seconds kLimit{10};
constexpr size_t kMostScriptBytes = 1 << 20;

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

// As Python opens a file, an archive, or a folder with a __main__.py.
std::vector<std::string> QuestionForPythonScript(const RunSpec& spec, const std::string& script) {
  constexpr const char* kProgram =
      "import os, stat, sys\n"
      "def no(why):\n"
      "    print(why)\n"
      "    sys.exit(86)\n"
      "path = sys.argv[1]\n"
      "try:\n"
      "    mode = os.stat(path).st_mode\n"
      "    if stat.S_ISREG(mode):\n"
      "        open(path, 'rb').close()\n"
      "    names = os.listdir(path) if stat.S_ISDIR(mode) else ['__main__.py']\n"
      "    if not set(names) & set(['__main__.py', '__main__.pyc']):\n"
      "        no('a folder without __main__.py')\n"
      "except EnvironmentError as error:\n"
      "    no(error.strerror)\n";
  return Question(spec, {"-I", "-S", "-W", "ignore"},
                  {"-c", kProgram, std::filesystem::path(spec.cwd) / script});
}

// A name without '/' that is not in its folder bash looks for in PATH.
std::vector<std::string> QuestionForShellScript(const RunSpec& spec, const std::string& script) {
  constexpr const char* kProgram =
      "case $0 in /*) ;; *) cd \"$1\" || exit 0 ;; esac\n"
      "set -f\n"
      "no() { echo \"$1\"; exit 86; }\n"
      "if [ ! -e \"$0\" ]; then\n"
      "  case $0 in\n"
      "  */*) ;;\n"
      "  *) IFS=:; for folder in $PATH; do [ -r \"$folder/$0\" ] && exit 0; done ;;\n"
      "  esac\n"
      "  no 'No such file or directory'\n"
      "fi\n"
      "[ ! -d \"$0\" ] || no 'Is a directory'\n"
      "[ -r \"$0\" ] || no 'Permission denied'\n";
  return Question(spec, {}, {"-c", kProgram, script, spec.cwd});
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

ProgramResult Ask(const RunSpec& spec, const std::vector<std::string>& question) {
  return RunProgram({.argv = question, .environment = spec.env}, SystemClock().Now() + kLimit);
}

bool SaysNo(const RunSpec& spec, const std::vector<std::string>& question,
            ProgramResult* said = nullptr) {
  ProgramResult result = Ask(spec, question);
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

// What opens the script in the end, also in a shell that reads the user's files first: where those find another python3, that one
// opens the same file.
RunSpec ReaderOf(const RunSpec& spec) {
  RunSpec reader = InnermostSpec(spec);
  if (auto inner = InnerOfUsersShell(reader.argv))
    reader.argv = InnermostOf(std::move(inner->words));
  return reader;
}

// Descriptors of the task: `bash <(...)` and /dev/stdin.
bool IsOpenedOnlyByTheTask(const std::string& script) {
  return script.starts_with("/dev/") || script.starts_with("/proc/");
}

std::string WithoutNewline(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

// Empty: it is none that a shell parses at once, or too long a text.
std::string TextOfScript(const std::filesystem::path& file) {
  std::error_code error;
  const bool is_file = std::filesystem::is_regular_file(file, error);
  const bool is_short = is_file && std::filesystem::file_size(file, error) <= kMostScriptBytes;
  if (!is_short || error) return {};
  return ReadFileIfExists(file, kMostScriptBytes).value_or("");
}

// Also a wrapper of the user's that is called python3 may end with 2.
bool KnowsNoSuchOption(const RunSpec& spec, const std::vector<std::string>& question) {
  const ProgramResult said = Ask(spec, question);
  return !said.timed_out && said.exit_code == 2 &&
         said.error_output.find("nknown option") != std::string::npos;
}

// A shell parses a line once it has run those before it: an alias and `shopt -s extglob` change what is an error, and what stands
// after `exit` or `exec`, as the archive of an installer does, is never read.
bool IsParsedAsItRuns(std::string_view script) {
  if (script.find("shopt") != script.npos || script.find("alias ") != script.npos) return true;
  bool is_left = false;
  while (!script.empty()) {
    const std::string_view line = TakeUpTo('\n', script);
    if (is_left && line.find_first_not_of(" \t\r") != line.npos) return true;
    is_left = is_left || line.starts_with("exit") || line.starts_with("exec ");
  }
  return false;
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

void ProgramQuestions::AskForScript(
    const RunSpec& spec, const std::string& remedy,
    const std::function<bool(const std::filesystem::path&)>& is_to_come) {
  const RunSpec reader = ReaderOf(spec);
  const auto of_python = PythonScriptOf(reader.argv);
  const auto script = of_python ? of_python : ShellScriptOf(reader.argv);
  if (!script || IsOpenedOnlyByTheTask(*script)) return;
  if (is_to_come((std::filesystem::path(reader.cwd) / *script).lexically_normal())) return;
  const auto question = of_python ? QuestionForPythonScript(reader, *script)
                                  : QuestionForShellScript(reader, *script);
  ProgramResult said;
  if (!asked_.insert(question).second || !SaysNo(reader, question, &said)) return;
  Refuse(spec,
         fmt::format("{} cannot open {}: {}", reader.argv[0], *script, WithoutNewline(said.output)),
         remedy);
}

void ProgramQuestions::AskForSyntax(const RunSpec& spec) {
  const RunSpec innermost = InnermostSpec(spec);
  if (const auto option = OddPythonOptionOf(innermost.argv)) {
    const auto question = Question(innermost, {*option}, {"-c", "pass"});
    if (asked_.insert(question).second && KnowsNoSuchOption(innermost, question)) {
      Refuse(spec, fmt::format("{} has no option {}", innermost.argv[0], *option),
             fmt::format("{} --help lists its options; those of the script stand after it",
                         innermost.argv[0]));
    }
  }
  if (const auto script = ShellScriptOf(innermost.argv)) return AskForShellSyntax(spec, *script);
  const auto script = PythonScriptOf(innermost.argv);
  if (!script || !script->ends_with(".py")) return;  // an archive, or compiled
  const auto question = QuestionForSyntax(innermost, *script);
  ProgramResult said;
  if (!asked_.insert(question).second || !SaysNo(innermost, question, &said)) return;
  Refuse(
      spec, fmt::format("{}, {}", *script, WithoutNewline(said.output)),
      fmt::format("correct it; {} -m py_compile {} shows the place", innermost.argv[0], *script));
}

void ProgramQuestions::AskForShellSyntax(const RunSpec& spec, const std::string& script) {
  const RunSpec shell = InnermostSpec(spec);
  const std::string file = std::filesystem::path(shell.cwd) / script;
  const std::string text = TextOfScript(file);
  if (text.empty() || IsParsedAsItRuns(text)) return;
  const auto question = Question(shell, {"-n"}, {file});
  if (!asked_.insert(question).second) return;
  const ProgramResult said = Ask(shell, question);
  const bool is_refused = !said.timed_out && (said.exit_code == 1 || said.exit_code == 2) &&
                          said.error_output.find("yntax error") != std::string::npos;
  if (!is_refused) return;
  std::string_view first = said.error_output;
  Refuse(spec, std::string(TakeUpTo('\n', first)),
         fmt::format("correct it; {} -n {} shows the place", shell.argv[0], script));
}

}  // namespace tfdist::agent
