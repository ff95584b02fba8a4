#include "agent/holder/in_task_main.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <utility>

#include "agent/census/census.h"
#include "agent/container/apptainer.h"
#include "agent/holder/exec_search.h"
#include "agent/process/run_folder.h"
#include "agent/slot/slot_folder.h"
#include "base/error.h"
#include "base/failures.h"

namespace tfdist::agent {
namespace {

constexpr int kNotExecuted = 127;  // as a shell says it

// By this one `tfdist exec` finds what it has started (cli/link/boot_script.cc); the other says
// what the user's terminal can do.
constexpr const char* kOfVisitor[] = {"TFDIST_EXEC", "TERM"};

bool IsNamed(std::string_view name, std::string_view entry) {
  return entry.starts_with(name) && entry.substr(name.size()).starts_with('=');
}

RunSpec NewestSpec(const SlotFolder& folder, const std::string& task) {
  if (!IsTaskName(task)) throw UsageError(Phase::kUsage, fmt::format("{} is no task", task));
  const auto newest = FindNewestRun(folder.TaskFolder(task));
  if (!newest) {
    throw UsageError(
        Phase::kUsage,
        fmt::format("{} does not run here: its job is over, or has not started the task yet", task),
        "tfdist shell JOB @HOST opens a shell on its host; tfdist logs JOB shows what it has "
        "written");
  }
  return ReadRunSpec(folder.TaskFolder(task) / RunFolderName(newest->first, newest->second));
}

// `prefix`: of the variables' names.
void MakeItTheVisitors(std::vector<std::string>& env, std::string_view prefix) {
  const auto forget = [&](std::string_view name) {
    const std::string whole = fmt::format("{}{}", prefix, name);
    std::erase_if(env, [&](const std::string& entry) { return IsNamed(whole, entry); });
  };
  forget(kCookieName);
  for (const char* name : kOfVisitor) {
    const char* value = std::getenv(name);
    if (value == nullptr) continue;
    forget(name);
    env.push_back(fmt::format("{}{}={}", prefix, name, value));
  }
}

std::string ShellOf(const std::vector<std::string>& env) {
  constexpr std::string_view kName = "SHELL";
  for (const std::string& entry : env) {
    if (IsNamed(kName, entry)) return entry.substr(kName.size() + 1);
  }
  return "/bin/sh";
}

// In the task's container, with what its engine has given the task; this process's standard streams are the visitor's.
std::vector<std::string> CommandInContainer(const RunSpec& spec, std::vector<std::string> words) {
  std::vector<std::string> argv = {spec.engine, "exec", "--interactive"};
  if (isatty(STDIN_FILENO) == 1) argv.emplace_back("--tty");
  for (const char* name : kOfVisitor) {
    if (std::getenv(name) != nullptr) argv.insert(argv.end(), {"--env", name});
  }
  argv.push_back(spec.container);
  if (words.empty()) words = {"/bin/sh"};
  argv.insert(argv.end(), words.begin(), words.end());
  return argv;
}

void Become(const std::vector<std::string>& arguments) {
  if (arguments.empty()) throw UsageError(Phase::kUsage, "in-task needs a task");
  const SlotFolder folder(std::filesystem::read_symlink("/proc/self/exe").parent_path());
  RunSpec spec = NewestSpec(folder, arguments[0]);
  MakeItTheVisitors(spec.env, "");
  const std::vector<std::string> of_task =
      std::exchange(spec.argv, {arguments.begin() + 1, arguments.end()});
  if (!spec.container.empty()) {
    spec.argv = CommandInContainer(spec, spec.argv);
  } else if (!spec.engine.empty()) {
    MakeItTheVisitors(spec.env, kApptainerEnvPrefix);
    spec.argv = ApptainerVisit(of_task, spec.argv);
  } else if (spec.argv.empty()) {
    spec.argv = {ShellOf(spec.env)};
  }
  if (chdir(spec.cwd.c_str()) != 0) {
    throw Error(Phase::kFiles, WithErrno("cannot enter " + spec.cwd, errno));
  }
  throw Error(Phase::kCommand, Execute(spec));
}

}  // namespace

int InTaskMain(const std::vector<std::string>& arguments) {
  try {
    Become(arguments);
  } catch (const Error& error) {
    const std::string text = fmt::format("tfdist: {}\n", error.what());
    [[maybe_unused]] const ssize_t put = write(STDERR_FILENO, text.data(), text.size());
  }
  return kNotExecuted;
}

}  // namespace tfdist::agent
