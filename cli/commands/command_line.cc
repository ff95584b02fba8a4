#include "cli/commands/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <system_error>

#include "cli/cluster_file/problems.h"
#include "cli/commands/commands.h"
#include "cli/commands/exit_codes.h"
#include "cli/commands/find_job.h"
#include "cli/commands/report.h"
#include "cli/link/embedded_agent.h"
#include "cli/plan/plan.h"
#include "cli/stream/line_printer.h"

namespace tfdist::cli {
namespace {

constexpr const char* kJobHelp = "name, id or cluster file; without it the only or the newest job";

// The chosen command, bound to its arguments.
using Command = std::function<int()>;

void AddRender(CLI::App& app, Command& command) {
  auto arguments = std::make_shared<RenderArguments>();
  CLI::App* sub = app.add_subcommand("render", "show what would run where; touches no host");
  sub->add_option("FILE", arguments->file, "cluster file")->required();
  auto* env = sub->add_option("--env", arguments->env_of, "a task's environment, as shell lines");
  env->type_name("TASK");
  sub->add_flag("--json", arguments->json, "the whole plan as JSON")->excludes(env);
  sub->callback(
      [&command, arguments] { command = [arguments] { return RenderCommand(*arguments); }; });
}

void AddUp(CLI::App& app, Command& command) {
  auto arguments = std::make_shared<UpArguments>();
  CLI::App* sub = app.add_subcommand("up", "start the job and stream its output until it ends");
  sub->add_option("FILE", arguments->file, "cluster file")->required();
  sub->add_flag("-d,--detach", arguments->detach, "return once it runs");
  sub->add_flag("--replace", arguments->replace, "end the job that runs under this name first");
  sub->callback([&command, arguments] { command = [arguments] { return UpCommand(*arguments); }; });
}

void AddLogs(CLI::App& app, Command& command) {
  auto arguments = std::make_shared<LogsArguments>();
  auto words = std::make_shared<std::vector<std::string>>();
  CLI::App* sub = app.add_subcommand("logs", "output of tasks, live or past");
  sub->add_option(
      "JOB and TASKs", *words,
      "[JOB] [TASK...]; a TASK is worker:0, or a task type for all of it; without JOB the "
      "newest job");
  sub->add_flag("-f,--follow", arguments->follow, "go on until the job is over");
  sub->add_option("--tail", arguments->tail, "so many last lines of each task only");
  sub->add_flag("--raw", arguments->raw, "one task's bytes as they are, without prefixes");
  sub->add_option("--from", arguments->from, "first byte wanted of one task's output");
  sub->callback([&command, arguments, words] {
    // A word with a colon is a task; the first other word is the job.
    for (const std::string& word : *words) {
      const bool is_job = arguments->job.empty() && arguments->tasks.empty() &&
                          (word.find(':') == std::string::npos || word.find('/') == 0);
      if (is_job) {
        arguments->job = word;
      } else {
        arguments->tasks.push_back(word);
      }
    }
    command = [arguments] { return LogsCommand(*arguments); };
  });
}

void AddStatus(CLI::App& app, Command& command) {
  auto arguments = std::make_shared<StatusArguments>();
  CLI::App* sub = app.add_subcommand("status", "how a job and its tasks fare");
  sub->add_option("JOB", arguments->job, kJobHelp);
  sub->add_flag("--json", arguments->json);
  sub->callback(
      [&command, arguments] { command = [arguments] { return StatusCommand(*arguments); }; });
}

void AddList(CLI::App& app, Command& command) {
  auto arguments = std::make_shared<ListArguments>();
  CLI::App* sub = app.add_subcommand("list", "jobs that were started from this machine");
  sub->add_flag("--json", arguments->json);
  sub->callback(
      [&command, arguments] { command = [arguments] { return ListCommand(*arguments); }; });
}

void AddEvents(CLI::App& app, Command& command) {
  auto arguments = std::make_shared<EventsArguments>();
  CLI::App* sub = app.add_subcommand("events", "what happened to a job, from its event log");
  sub->add_option("JOB", arguments->job, kJobHelp);
  sub->add_flag("--json", arguments->json, "one JSON object a line");
  sub->callback(
      [&command, arguments] { command = [arguments] { return EventsCommand(*arguments); }; });
}

void AddDown(CLI::App& app, Command& command) {
  auto arguments = std::make_shared<DownArguments>();
  CLI::App* sub = app.add_subcommand("down", "end a job; says what is left, host by host");
  sub->add_option("JOB", arguments->job, kJobHelp);
  sub->add_flag("--force", arguments->force, "kill at once, without grace");
  sub->add_flag("--purge", arguments->purge, "remove its logs and folders as well");
  sub->callback(
      [&command, arguments] { command = [arguments] { return DownCommand(*arguments); }; });
}

void AddClean(CLI::App& app, Command& command) {
  auto arguments = std::make_shared<CleanArguments>();
  CLI::App* sub = app.add_subcommand("clean", "remove agents, logs and caches from all hosts");
  sub->add_option("FILE", arguments->file, "cluster file")->required();
  sub->callback(
      [&command, arguments] { command = [arguments] { return CleanCommand(*arguments); }; });
}

// What a command has said has been written, or is an error.
int Flushed(int exit_code) {
  if (fflush(stdout) != 0) throw OutputClosed(errno);
  return exit_code;
}

int AfterClosedOutput(const OutputClosed& error) {
  if (error.reader_left()) return kExitSuccess;  // `tfdist logs | head`
  PrintError(error);
  return kExitHost;
}

int Run(const Command& command) {
  try {
    return Flushed(command());
  } catch (const PlanErrors& errors) {
    fmt::print(stderr, "{}", errors.Report());
    return kExitUsage;
  } catch (const NoSuchJob& error) {
    PrintError(error);
    return kExitNoJob;
  } catch (const OutputClosed& error) {
    return AfterClosedOutput(error);
  } catch (const Error& error) {
    PrintError(error);
    const bool usage = error.phase() == Phase::kUsage || error.phase() == Phase::kConfig;
    return usage ? kExitUsage : kExitHost;
  } catch (const std::filesystem::filesystem_error& error) {
    PrintError(Error(Phase::kFiles, error.what()));
    return kExitHost;
  } catch (const std::system_error& error) {
    if (ferror(stdout) != 0) return AfterClosedOutput(OutputClosed(error.code().value()));
    PrintError(Error(Phase::kInternal, error.what()));  // no more threads, say
    return kExitHost;
  } catch (const std::exception& e) {
    PrintError(Error(Phase::kInternal, e.what(), "this is a bug of tfdist: please report it"));
    return kExitHost;
  }
}

// CLI11 itself would only say that a command is missing.
bool IsCommand(const CLI::App& app, const char* word) {
  const auto commands = app.get_subcommands([](const CLI::App*) { return true; });
  return std::any_of(commands.begin(), commands.end(),
                     [word](const CLI::App* command) { return command->get_name() == word; });
}

}  // namespace

int Main(int argc, char** argv) {
  Command command;
  CLI::App app("tfdist: a list of machines, one running distributed training job, over SSH alone");
  app.require_subcommand(1);
  app.set_version_flag("--version", fmt::format("tfdist {} (agent {:.12})", TFDIST_VERSION,
                                                GetEmbeddedAgent().sha256_hex));
  app.footer(
      "Exit codes: 0 success; 1 the job failed, or `down` could not confirm that nothing is left;\n"
      "2 usage or bad cluster file; 3 a host could not be brought up or reached; 4 no such job, or "
      "another\none of that name is running; 130 interrupted; 141 nobody reads the output of "
      "`up`.");
  for (auto add : {AddRender, AddUp, AddLogs, AddStatus, AddList, AddEvents, AddDown, AddClean}) {
    add(app, command);
  }
  if (argc > 1 && argv[1][0] != '-' && !IsCommand(app, argv[1])) {
    PrintError(
        Error(Phase::kUsage, fmt::format("there is no command '{}'", argv[1]), "tfdist --help"));
    return kExitUsage;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitSuccess : kExitUsage;
  }
  return Run(command);
}

}  // namespace tfdist::cli
