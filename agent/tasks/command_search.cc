#include "agent/tasks/command_search.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "agent/tasks/elf_file.h"
#include "agent/tasks/exec_trial.h"
#include "base/error.h"
#include "base/inner_command.h"
#include "base/text.h"

namespace tfdist::agent {
namespace {

// Who executes a program: by the kernel a file needs a format that the kernel knows. A shell, and what looks for programs by
// execvp(3), as env(1) does, hands any other text to sh.
enum class Executor { kKernel, kShell };

// Why a file cannot be executed.
struct Obstacle {
  std::string why;
  std::string remedy;  // empty: that of a program that is not there
};

// What execvp(3) uses when PATH is not set.
constexpr std::string_view kDefaultPath = "/bin:/usr/bin";

std::string PathOf(const RunSpec& spec) {
  return ValueOf(spec, "PATH").value_or(std::string(kDefaultPath));
}

std::optional<Obstacle> ObstacleOf(const RunSpec& spec, Executor executor);

// `#!/usr/bin/env -S python3 -u` hands env(1) one word. Empty: what the option's own rules make of it is not known.
std::vector<std::string> PartedByEnv(std::string_view argument) {
  std::vector<std::string> words = {"env"};
  if (argument.find_first_of("\\'\"$#") != argument.npos) return {};
  for (std::string_view rest = argument.substr(2); !rest.empty();) {
    const std::string_view word = TakeUpTo(' ', rest);
    if (!word.empty()) words.emplace_back(word);
  }
  return words;
}

// `argument`: what the first line has after the interpreter.
std::vector<std::string> WordsOfFirstLine(const std::string& interpreter,
                                          const std::string& argument) {
  if (argument.empty()) return {interpreter};
  if (argument.starts_with("-S")) return PartedByEnv(argument);
  return {interpreter, argument};
}

std::optional<RunSpec> Within(const RunSpec& spec);

// A script that names a program that is not there: execve(2) finds no interpreter, or env(1) no program. A line that ends in CR LF
// names one whose name ends in CR, also to env(1).
std::optional<Obstacle> ScriptObstacle(const std::filesystem::path& file, std::string_view line,
                                       const RunSpec& spec) {
  if (line.ends_with('\r')) {
    return Obstacle{
        file.string() + ": its lines end in CR LF, as Windows writes them",
        fmt::format("let them end in LF: sed -i 's/\\r$//' {}, where it comes from", spec.argv[0])};
  }
  const auto names = [&](const std::string& interpreter, std::string_view where) {
    // pip writes the path of the environment into each script of it.
    const bool is_pythons = interpreter.find("/bin/python") != interpreter.npos;
    return Obstacle{
        fmt::format("{}: its first line names {}, which is not there{}", file.string(), interpreter,
                    where),
        is_pythons ? "a Python environment that was moved or copied keeps its old path in its "
                     "scripts: make it anew on that host, or write python -m MODULE in the place "
                     "of " +
                         spec.argv[0]
                   : "let it name a program of that host, as #!/usr/bin/env python3 does"};
  };
  line.remove_prefix(std::min(line.find_first_not_of(" \t", 2), line.size()));
  const std::string interpreter(line.substr(0, line.find_first_of(" \t")));
  line.remove_prefix(std::min(line.find_first_not_of(" \t", interpreter.size()), line.size()));
  const std::string argument(line.substr(0, line.find_last_not_of(" \t") + 1));
  if (!interpreter.starts_with('/')) return std::nullopt;
  if (access(interpreter.c_str(), F_OK) != 0) return names(interpreter, "");
  RunSpec by_line = spec;
  by_line.argv = WordsOfFirstLine(interpreter, argument);
  const auto inner = by_line.argv.empty() ? std::nullopt : Within(by_line);
  if (!inner || inner->argv[0].find('/') != std::string::npos) return std::nullopt;
  const auto obstacle = ObstacleOf(*inner, Executor::kShell);
  if (!obstacle) return std::nullopt;
  return names(inner->argv[0], ": " + obstacle->why);
}

Obstacle ElfObstacle(const std::filesystem::path& file, const ElfFacts& facts, int error_number) {
  if (error_number == ENOENT && !facts.loader.empty()) {
    return {fmt::format("{}: it asks for the loader {}, which is not there", file.string(),
                        facts.loader),
            "it was built for another system: build it on that host's, or install what has that "
            "loader"};
  }
  if (!facts.is_for_here) {
    return {fmt::format("{}: a program for {}, which this host does not execute", file.string(),
                        facts.machine),
            "build it for that host's architecture, or copy the program that was"};
  }
  return {WithErrno(fmt::format("{}: a broken program", file.string()), error_number),
          "copy or build it anew: a part is missing, perhaps"};
}

// A program of this machine whose loader is there, as nearly all are: no need to ask the kernel.
bool IsPlainProgram(const ElfFacts& facts) {
  return facts.is_for_here && facts.has_segments &&
         (facts.loader.empty() || access(facts.loader.c_str(), X_OK) == 0);
}

// Of a file that is there and may be executed: what is in it.
std::optional<Obstacle> ContentObstacle(const std::filesystem::path& file, const RunSpec& spec,
                                        Executor executor) {
  constexpr size_t kMostLine = 256;  // BINPRM_BUF_SIZE
  std::string head(kMostLine, '\0');
  std::ifstream content(file, std::ios::binary);
  if (!content) return std::nullopt;  // a program may be executed without being read
  content.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<size_t>(content.gcount()));
  if (head.starts_with("#!"))
    return ScriptObstacle(file, std::string_view(head).substr(0, head.find('\n')), spec);
  const auto elf = ReadElf(file);
  if (elf ? IsPlainProgram(*elf) : executor == Executor::kShell) return std::nullopt;
  const auto error_number = WhyKernelRefuses(file, spec.cwd);
  if (!error_number) return std::nullopt;
  if (elf) return ElfObstacle(file, *elf, *error_number);
  if (head.empty()) return Obstacle{file.string() + ": an empty file", "write or copy it anew"};
  return Obstacle{
      file.string() + ": neither a program for Linux nor a script that begins with #!",
      fmt::format("let its first line name its interpreter, as #!/usr/bin/env python3 does, or "
                  "write that in front: sh {}",
                  spec.argv[0])};
}

std::optional<Obstacle> FileObstacle(const std::filesystem::path& file, const RunSpec& spec,
                                     Executor executor) {
  struct stat info {};
  if (stat(file.c_str(), &info) != 0) return Obstacle{WithErrno(file.string(), errno), ""};
  if (!S_ISREG(info.st_mode)) return Obstacle{file.string() + ": not a file", ""};
  if (access(file.c_str(), X_OK) != 0) return Obstacle{file.string() + ": not executable", ""};
  return ContentObstacle(file, spec, executor);
}

// As execvp(3) looks. Of files that cannot be executed the first one is told.
std::optional<Obstacle> ObstacleInPath(const RunSpec& spec, const std::string& path,
                                       Executor executor) {
  std::optional<Obstacle> found;
  for (std::string_view rest = path;;) {
    const size_t colon = rest.find(':');
    const auto file = std::filesystem::path(spec.cwd) / rest.substr(0, colon) / spec.argv[0];
    auto obstacle = FileObstacle(file, spec, executor);
    if (!obstacle) return std::nullopt;
    std::error_code none;
    if (!found && std::filesystem::is_regular_file(file, none)) found = std::move(obstacle);
    if (colon == std::string_view::npos) break;
    rest.remove_prefix(colon + 1);
  }
  if (!found) return Obstacle{fmt::format("not found in PATH={}", path), ""};
  found->why += fmt::format("; there is no other one in PATH={}", path);
  return found;
}

std::optional<Obstacle> ObstacleOf(const RunSpec& spec, Executor executor) {
  if (spec.argv[0].find('/') == std::string::npos)
    return ObstacleInPath(spec, PathOf(spec), executor);
  return FileObstacle(std::filesystem::path(spec.cwd) / spec.argv[0], spec, executor);
}

// The Python environment whose programs come first, as its `activate` has it.
std::optional<std::string> ActivatedEnvironment(const RunSpec& spec) {
  auto folder = ValueOf(spec, "VIRTUAL_ENV");
  if (!folder || folder->empty() || !PathOf(spec).starts_with(*folder + "/bin:"))
    return std::nullopt;
  return folder;
}

// "python3 train.py", as one word.
bool HoldsWholeCommand(const RunSpec& spec) {
  std::error_code none;
  if (std::filesystem::exists(std::filesystem::path(spec.cwd) / spec.argv[0], none)) return false;
  return spec.argv.size() == 1 && spec.argv[0].find(' ') != std::string::npos &&
         !spec.argv[0].starts_with('/');
}

std::string RemedyFor(const RunSpec& spec) {
  std::error_code none;
  const std::string& name = spec.argv[0];
  if (HoldsWholeCommand(spec)) {
    return "no shell parts it: write each word by itself, -- python3 train.py, or "
           "[\"python3\", \"train.py\"] in a file";
  }
  if (IsAssignment(name)) {
    return fmt::format("no shell reads the command: --env {}, or `env` in a file", name);
  }
  if (IsShellWord(name)) {
    return fmt::format(
        "only a shell knows it: bash -c '{} ...; exec ...'; --workdir and `cwd` choose "
        "the folder, `venv` a Python environment, --env variables",
        name);
  }
  if (name.starts_with('/')) {
    return "the path counts on that host: is the program there, and not a link to what is not?";
  }
  if (name.find('/') != name.npos) return "is it in the workdir, and executable (chmod +x)?";
  if (std::filesystem::is_regular_file(std::filesystem::path(spec.cwd) / name, none)) {
    const char* const shown = name.ends_with(".py")   ? "python3 {0}, or ./{0}"
                              : name.ends_with(".sh") ? "sh {0}, or ./{0}"
                                                      : "./{0}";
    return fmt::format("it is where the task starts, and no program is looked for there: ") +
           fmt::format(fmt::runtime(shown), name);
  }
  if (const auto folder = ActivatedEnvironment(spec)) {
    return fmt::format(
        "install it in the task's environment, {0}/bin/python -m pip install ...; or "
        "`venv` names another one",
        *folder);
  }
  return "install it on that host, name the Python environment that has it (venv = \"~/NAME\" in "
         "[task], or --set task.venv=~/NAME), give its whole path, or set PATH in the task's env";
}

// bash may have a function in the place of the program.
bool MayReplacePrograms(const RunSpec& shell) {
  return std::ranges::any_of(shell.env, [](const std::string& entry) {
    return entry.starts_with("BASH_ENV=") || entry.starts_with("BASH_FUNC_");
  });
}

// What `spec` runs, as InnerOf has it.
std::optional<RunSpec> Within(const RunSpec& spec) {
  auto inner = InnerOf(spec.argv);
  if (!inner || (inner->by_shell && MayReplacePrograms(spec))) return std::nullopt;
  RunSpec within = spec;
  within.argv = std::move(inner->words);
  if (inner->clears_environment) within.env.clear();
  for (std::string& entry : inner->set) {
    const std::string name = entry.substr(0, entry.find('=') + 1);
    std::erase_if(within.env, [&](const std::string& other) { return other.starts_with(name); });
    within.env.push_back(std::move(entry));
  }
  return within;
}

// The first program of `spec` that cannot be executed here, from `env` or a shell to the innermost.
std::optional<std::pair<RunSpec, Obstacle>> FindObstacle(
    const RunSpec& spec, const std::function<bool(const RunSpec&)>& is_to_come) {
  Executor executor = Executor::kKernel;
  for (std::optional<RunSpec> one = spec; one; one = Within(*one)) {
    auto obstacle = is_to_come(*one) ? std::nullopt : ObstacleOf(*one, executor);
    if (obstacle) return std::pair(*std::move(one), *std::move(obstacle));
    executor = Executor::kShell;
  }
  return std::nullopt;
}

struct PythonEnvironment {
  std::string kind;
  std::filesystem::path folder;
};

std::optional<PythonEnvironment> EnvironmentOf(const RunSpec& spec) {
  if (auto folder = ActivatedEnvironment(spec)) return {{"virtual environment", *folder}};
  auto prefix = ValueOf(spec, "CONDA_PREFIX");
  if (!prefix || !PathOf(spec).starts_with(*prefix + "/bin:")) return std::nullopt;
  return {{"conda environment", *prefix}};
}

// "python3.11", which is looked for in PATH.
bool IsPython(std::string_view program) {
  constexpr std::string_view kName = "python";
  return program.starts_with(kName) &&
         program.find_first_not_of("0123456789.", kName.size()) == program.npos;
}

Obstacle EnvironmentObstacle(const PythonEnvironment& environment,
                             const std::filesystem::path& python, Obstacle obstacle) {
  std::error_code error;
  const bool is_conda = environment.kind.starts_with("conda");
  const std::string make = is_conda ? "conda install -p " : "python3 -m venv ";
  const std::string& folder = environment.folder.native();
  const auto target = std::filesystem::read_symlink(python, error);
  const bool is_link = !error;
  const bool is_there = std::filesystem::exists(python, error);
  if (error.value() == EACCES) {
    obstacle.remedy =
        fmt::format("namei -l {} shows which folder the account may not enter", python.string());
  } else if (is_link && !is_there) {
    obstacle.why =
        fmt::format("{} is a link to {}, which this host lacks", python.string(), target.string());
    obstacle.remedy =
        is_conda ? fmt::format("on that host: conda install -p {} --force-reinstall python", folder)
                 : fmt::format(
                       "make it anew on that host: python3 -m venv --clear {}, and install "
                       "its packages again",
                       folder);
  } else if (std::filesystem::is_directory(environment.folder, error) && !is_conda &&
             !std::filesystem::exists(environment.folder / "pyvenv.cfg", error)) {
    obstacle.remedy = fmt::format(
        "{0} is no virtual environment: name the folder of one, or make one in it: python3 -m venv "
        "{0}/venv",
        folder);
  } else if (std::filesystem::is_regular_file(environment.folder, error)) {
    obstacle.remedy = "`venv` is the folder of the environment, above its bin";
  } else {
    obstacle.remedy =
        fmt::format("make it on that host: {}{}{}", make, folder, is_conda ? " python" : "");
  }
  return obstacle;
}

// Without it another Python would run, which lacks the program's packages.
void CheckPythonEnvironment(const RunSpec& spec) {
  const auto environment = EnvironmentOf(spec);
  if (!environment) return;
  std::vector<std::string> pythons;
  if (environment->kind.starts_with("virtual")) pythons.emplace_back("python");
  if (const RunSpec innermost = InnermostSpec(spec); IsPython(innermost.argv[0]))
    pythons.push_back(innermost.argv[0]);
  for (const std::string& name : pythons) {
    const auto python = environment->folder / "bin" / name;
    auto obstacle = FileObstacle(python, spec, Executor::kKernel);
    if (!obstacle) continue;
    obstacle = EnvironmentObstacle(*environment, python, *std::move(obstacle));
    throw Error(Phase::kCommand,
                fmt::format("the {} of {}: {}", environment->kind, spec.task, obstacle->why),
                obstacle->remedy);
  }
}

}  // namespace

std::optional<std::string> ValueOf(const RunSpec& spec, std::string_view name) {
  for (const std::string& entry : spec.env) {
    if (entry.starts_with(name) && entry[name.size()] == '=') return entry.substr(name.size() + 1);
  }
  return std::nullopt;
}

std::optional<std::string> WhyNotEntered(const std::string& folder) {
  struct stat info {};
  if (stat(folder.c_str(), &info) != 0) return WithErrno(folder, errno);
  if (!S_ISDIR(info.st_mode)) return folder + ": not a folder";
  if (access(folder.c_str(), X_OK) != 0) return WithErrno(folder, errno);
  return std::nullopt;
}

void CheckStartFolder(const RunSpec& spec, const std::string& brought) {
  const auto why = WhyNotEntered(spec.cwd);
  if (!why) return;
  throw Error(Phase::kCommand, fmt::format("{} cannot start in {}", spec.task, *why),
              spec.cwd.starts_with(brought + '/')
                  ? "cwd counts from the workdir: is the folder in it?"
                  : "cwd is a path of that host: is the folder there, or not mounted?");
}

void CheckCommand(const RunSpec& spec, const std::function<bool(const RunSpec&)>& is_to_come) {
  if (spec.argv.empty() || spec.argv[0].empty()) {
    throw Error(Phase::kCommand, fmt::format("{} has no command", spec.task));
  }
  if (!is_to_come(spec)) CheckPythonEnvironment(spec);
  const auto found = FindObstacle(spec, is_to_come);
  if (!found) return;
  const auto& [program, obstacle] = *found;
  throw Error(Phase::kCommand,
              fmt::format("command '{}' of {}: {}", program.argv[0], spec.task, obstacle.why),
              obstacle.remedy.empty() ? RemedyFor(program) : obstacle.remedy);
}

std::optional<MissingProgram> FindMissingProgram(const RunSpec& spec) {
  auto found = FindObstacle(spec, [](const RunSpec&) { return false; });
  if (!found) return std::nullopt;
  return MissingProgram{found->first.argv[0], std::move(found->second.why)};
}

RunSpec InnermostSpec(const RunSpec& spec) {
  RunSpec innermost = spec;
  while (auto within = Within(innermost)) innermost = *std::move(within);
  return innermost;
}

}  // namespace tfdist::agent
