// PlanSource: a cluster file, or hosts and a command.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/failures.h"
#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/deploy/runtime_program.h"
#include "cli/image/find_images.h"
#include "cli/plan/runtime_choice.h"
#include "cli/render/quote.h"
#include "cli/render/render.h"
#include "cli/show/report.h"
#include "cli/show/slow_notice.h"
#include "cli/stream/print.h"

namespace tfdist::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kUsualFile = "cluster.toml";

std::string ExampleOf(const PlanSource& source) {
  return fmt::format("tfdist {} -H gpu1,gpu2 -- python3 train.py", source.command);
}

bool IsFileOrExists(const std::string& word) {
  return word == "-" || word.ends_with(".toml") || word.find('/') != std::string::npos ||
         fs::exists(word);
}

// The current folder, unless it is one that nobody means to send to every host.
std::string CurrentFolder() {
  const fs::path here = fs::current_path();
  const char* home = std::getenv("HOME");
  std::error_code none;
  const bool is_home = home != nullptr && fs::equivalent(here, home, none);
  if (!is_home && here != here.root_path()) return ".";
  throw UsageError(Phase::kUsage,
                   fmt::format("the current folder is {}, and would be sent to every host",
                               is_home ? "your home" : here.string()),
                   "--workdir FOLDER sends another one, --no-workdir none");
}

// `up h1,h2 -- COMMAND` is as good as `up -H h1,h2 -- COMMAND`.
void TakeHostsFromFile(PlanSource& source) {
  if (source.file.empty() || !source.job.hosts.empty() || IsFileOrExists(source.file)) return;
  source.job.hosts = {std::exchange(source.file, {})};
}

Plan PlanOfCommand(PlanSource source) {
  if (source.job.command.empty()) {
    throw UsageError(Phase::kUsage, "-H and --hostfile need a command, after --",
                     ExampleOf(source));
  }
  if (source.job.hosts.empty()) {
    throw UsageError(Phase::kUsage, "nothing says on which hosts to run the command",
                     ExampleOf(source));
  }
  source.job.settings = source.settings;
  source.job.port_draw = source.port_draw;
  if (!source.no_workdir && !source.job.workdir) source.job.workdir = CurrentFolder();
  return PlanCommandLine(source.job);
}

// They would have no effect.
void RefuseOptionsOfNoFile(const PlanSource& source) {
  const CommandLineJob& job = source.job;
  const auto refuse = [&](const char* option, const char* key) {
    throw UsageError(Phase::kUsage,
                     fmt::format("{} goes with -H: {} says it itself", option, source.file),
                     fmt::format("{} in the file", key));
  };
  if (!job.ssh_config.empty()) refuse("-F", "config = \"...\" in [ssh]");
  if (!job.transport.empty()) refuse("--transport", "transport = \"...\" in [ssh]");
  if (job.layout != CommandLineJob().layout) refuse("--layout", "layout in [cluster]");
  if (job.workdir || source.no_workdir) refuse("--workdir and --no-workdir", "workdir in [task]");
}

void RefuseHostsBeside(const PlanSource& source) {
  const std::string& file = source.file;
  if (file.ends_with(".toml")) {
    throw UsageError(Phase::kUsage,
                     fmt::format("{} names its hosts: -H and --hostfile go without a file", file),
                     ExampleOf(source));
  }
  throw UsageError(
      Phase::kUsage,
      fmt::format("{} stands where a cluster file would, and -H goes without one", file),
      fmt::format("the command goes after --: {}", ExampleOf(source)));
}

// A user who writes a program behind -- hardly means an argument of the file's command.
bool IsProgram(const std::string& word) {
  if (word.find('/') != std::string::npos) return access(word.c_str(), X_OK) == 0;
  const char* path = std::getenv("PATH");  // NOLINT(concurrency-mt-unsafe)
  for (std::string_view rest = path == nullptr ? "" : path; !rest.empty();) {
    const fs::path file = fs::path(TakeUpTo(':', rest)) / word;
    if (access(file.c_str(), X_OK) == 0 && fs::is_regular_file(file)) return true;
  }
  return false;
}

void WarnOfProgram(const Plan& plan, const std::vector<std::string>& words) {
  if (words.empty() || words[0].starts_with('-') || !IsProgram(words[0])) return;
  const std::string list = nlohmann::json(words).dump(
      -1, ' ', false, nlohmann::json::error_handler_t::replace);  // as TOML writes it
  PrintWarning(
      fmt::format("{} is a program, and the words after -- follow the command of the file: {}",
                  words[0], CommandText(plan, plan.tasks[0])),
      fmt::format("for another command: --set {}", ShellWord("task.command=" + list)));
}

// `up train.py` is mostly the first try of all.
void RefuseProgram(const std::string& file) {
  for (const char* ending : {".py", ".sh"}) {
    if (!file.ends_with(ending)) continue;
    throw UsageError(Phase::kUsage,
                     fmt::format("{} is a program, and a cluster file is expected", file),
                     fmt::format("tfdist up -H gpu1,gpu2 -- {} {}",
                                 ending == std::string_view(".py") ? "python3" : "sh", file));
  }
}

Plan PlanOfFile(const PlanSource& source) {
  if (!source.job.hosts.empty()) RefuseHostsBeside(source);
  RefuseOptionsOfNoFile(source);
  RefuseProgram(source.file);
  PlanChanges changes{source.settings, source.job.command, source.job.env, source.port_draw};
  if (!source.job.name.empty()) changes.settings.push_back("name=" + source.job.name);
  Plan plan = LoadPlan(fs::path(source.file), changes);
  if (source.port_draw == 0) WarnOfProgram(plan, source.job.command);
  return plan;
}

void FindFile(PlanSource& source) {
  if (source.file.empty() && !source.job.hosts.empty()) return;
  source.file = FindClusterFile(source.file);
  if (source.file.empty() && source.job.command.empty()) {
    throw UsageError(
        Phase::kUsage,
        fmt::format("a cluster file is needed, or hosts and a command; there is no {} here",
                    kUsualFile),
        fmt::format("tfdist {} FILE, or {}", source.command, ExampleOf(source)));
  }
}

// Nobody named this file: its commands are the user's own only if nobody else could have put it there. A folder in /tmp, say.
void RefuseAnothers(const fs::path& file) {
  fs::path folder = file.parent_path();
  if (folder.empty()) folder = ".";
  const auto is_anothers = [](const struct stat& info) {
    return info.st_uid != 0 && info.st_uid != geteuid();
  };
  struct stat link {
  }, target{}, around{};
  const bool is_seen = lstat(file.c_str(), &link) == 0 && stat(file.c_str(), &target) == 0 &&
                       stat(folder.c_str(), &around) == 0;
  std::string why;
  if (!is_seen) {
    why = "cannot be looked at";
  } else if (is_anothers(link) || is_anothers(target)) {
    why = fmt::format("belongs to another account (uid {})",
                      is_anothers(link) ? link.st_uid : target.st_uid);
  } else if ((target.st_mode & S_IWOTH) != 0) {
    why = "may be written to by every account";
  } else if (is_anothers(around)) {
    why = fmt::format("lies in a folder of another account (uid {})", around.st_uid);
  } else if ((around.st_mode & S_IWOTH) != 0 && (around.st_mode & S_ISVTX) == 0) {
    why = "lies in a folder that every account may write to";
  }
  if (why.empty()) return;
  throw UsageError(Phase::kUsage, fmt::format("{} {}, and you did not name it", file.string(), why),
                   fmt::format("read it; if you want what it says, name it: {}",
                               ShellWord((folder / kUsualFile).string())));
}

void RefuseWithoutVariables(const Plan& plan) {
  if (plan.missing_variables.empty()) return;
  throw UsageError(Phase::kConfig,
                   fmt::format("env_from names what your shell does not set: {}",
                               fmt::join(plan.missing_variables, ", ")),
                   fmt::format("export {}=...", plan.missing_variables.front()));
}

}  // namespace

std::string FindClusterFile(const std::string& said) {
  std::error_code none;
  const bool is_folder = !said.empty() && fs::is_directory(said, none);
  if (!said.empty() && !is_folder) return said;
  const fs::path file = fs::path(said) / kUsualFile;
  if (fs::exists(file, none)) {
    RefuseAnothers(file);
    Say("tfdist: cluster file {}\n", file.string());
    return file.string();
  }
  if (!is_folder) return "";
  throw UsageError(Phase::kUsage, fmt::format("there is no {} in the folder {}", kUsualFile, said),
                   "name the cluster file");
}

Plan LoadPlan(PlanSource source) {
  if (!source.job.command.empty()) TakeHostsFromFile(source);
  FindFile(source);
  Plan plan = source.file.empty() ? PlanOfCommand(source) : PlanOfFile(source);
  RefuseWithoutVariables(plan);
  ChooseRuntimes(plan, HasCudaRuntime());
  if (!plan.images.empty()) {
    const SlowNotice notice("looking at images");
    FindImages(plan);
  }
  if (source.port_draw > 0) return plan;
  for (const std::string& warning : plan.warnings) PrintWarning(warning, "");
  return plan;
}

}  // namespace tfdist::cli
