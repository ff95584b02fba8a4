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

#include "base/error.h"
#include "base/inner_command.h"

namespace tfdist::agent {
namespace {

constexpr std::string_view kCrLf = ": its lines end in CR LF, as Windows writes them";
constexpr std::string_view kNames = ": its first line names ";

// What execvp(3) uses when PATH is not set.
constexpr std::string_view kDefaultPath = "/bin:/usr/bin";

std::string PathOf(const RunSpec& spec) {
  return ValueOf(spec, "PATH").value_or(std::string(kDefaultPath));
}

// The interpreter of a script that the kernel would not find, execve(2): its first line names none that is there. A line that
// ends in CR LF names one whose name ends in CR, also to env(1).
std::optional<std::string> ScriptObstacle(const std::filesystem::path& file) {
  constexpr size_t kMostLine = 256;  // BINPRM_BUF_SIZE
  std::string line(kMostLine, '\0');
  std::ifstream content(file, std::ios::binary);
  content.read(line.data(), static_cast<std::streamsize>(line.size()));
  line.resize(static_cast<size_t>(content.gcount()));
  line.resize(std::min(line.find('\n'), line.size()));
  if (!line.starts_with("#!")) return std::nullopt;
  if (line.ends_with('\r')) return file.string() + std::string(kCrLf);
  const std::string rest = line.substr(std::min(line.find_first_not_of(" \t", 2), line.size()));
  const std::string interpreter = rest.substr(0, rest.find_first_of(" \t"));
  const bool is_gone = interpreter.starts_with('/') && access(interpreter.c_str(), F_OK) != 0;
  if (!is_gone) return std::nullopt;
  return fmt::format("{}{}{}, which is not there", file.string(), kNames, interpreter);
}

// Why the file cannot be executed; nullopt when it can.
std::optional<std::string> Obstacle(const std::filesystem::path& file) {
  struct stat info {};
  if (stat(file.c_str(), &info) != 0) return WithErrno(file.string(), errno);
  if (!S_ISREG(info.st_mode)) return file.string() + ": not a file";
  if (access(file.c_str(), X_OK) != 0) return file.string() + ": not executable";
  return ScriptObstacle(file);
}

[[noreturn]] void Fail(const RunSpec& spec, const std::string& why, std::string remedy) {
  throw Error(Phase::kCommand, fmt::format("command '{}' of {}: {}", spec.argv[0], spec.task, why),
              std::move(remedy));
}

// As execvp(3) looks. Of files that cannot be executed the first one is told.
std::optional<std::string> WhyNotInPath(const RunSpec& spec, const std::string& path) {
  std::string found;
  for (std::string_view rest = path;;) {
    const size_t colon = rest.find(':');
    const auto file = std::filesystem::path(spec.cwd) / rest.substr(0, colon) / spec.argv[0];
    const auto obstacle = Obstacle(file);
    if (!obstacle) return std::nullopt;
    std::error_code none;
    if (found.empty() && std::filesystem::is_regular_file(file, none)) found = *obstacle;
    if (colon == std::string_view::npos) break;
    rest.remove_prefix(colon + 1);
  }
  if (found.empty()) return fmt::format("not found in PATH={}", path);
  return fmt::format("{}; there is no other one in PATH={}", found, path);
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

std::string RemedyFor(const RunSpec& spec, const std::string& why) {
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
  if (const size_t at = why.find(kNames); at != why.npos) {
    // pip writes the path of the environment into each script of it.
    const bool is_pythons = why.find("/bin/python", at) != why.npos;
    return is_pythons ? "a Python environment that was moved or copied keeps its old path in its "
                        "scripts: make it anew on that host, or write python -m MODULE in the "
                        "place of " +
                            name
                      : "let it name a program of that host, as #!/usr/bin/env python3 does";
  }
  if (why.find(kCrLf) != why.npos) {
    return fmt::format("let them end in LF: sed -i 's/\\r$//' {}, where it comes from", name);
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

// Without it another Python would run, which lacks the program's packages.
void CheckVirtualEnvironment(const RunSpec& spec) {
  const auto folder = ActivatedEnvironment(spec);
  if (!folder) return;
  const auto why = Obstacle(std::filesystem::path(*folder) / "bin/python");
  if (!why) return;
  throw Error(Phase::kCommand, fmt::format("the virtual environment of {}: {}", spec.task, *why),
              fmt::format("make it on that host: python3 -m venv {}", *folder));
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
  if (!is_to_come(spec)) CheckVirtualEnvironment(spec);
  for (std::optional<RunSpec> one = spec; one; one = Within(*one)) {
    if (is_to_come(*one)) continue;
    if (const auto why = WhyNotExecutable(*one)) Fail(*one, *why, RemedyFor(*one, *why));
  }
}

std::optional<MissingProgram> FindMissingProgram(const RunSpec& spec) {
  for (std::optional<RunSpec> one = spec; one; one = Within(*one)) {
    if (auto why = WhyNotExecutable(*one)) return MissingProgram{one->argv[0], *std::move(why)};
  }
  return std::nullopt;
}

RunSpec InnermostSpec(const RunSpec& spec) {
  RunSpec innermost = spec;
  while (auto within = Within(innermost)) innermost = *std::move(within);
  return innermost;
}

std::optional<std::string> WhyNotExecutable(const RunSpec& spec) {
  if (spec.argv[0].find('/') != std::string::npos) {
    return Obstacle(std::filesystem::path(spec.cwd) / spec.argv[0]);
  }
  return WhyNotInPath(spec, PathOf(spec));
}

}  // namespace tfdist::agent
