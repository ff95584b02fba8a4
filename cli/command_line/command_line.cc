#include "cli/command_line/command_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <sstream>
#include <system_error>
#include <utility>

#include "base/descriptor_limit.h"
#include "base/failures.h"
#include "cli/cluster_file/host_file.h"
#include "cli/cluster_file/known_keys.h"
#include "cli/cluster_file/nearest.h"
#include "cli/cluster_file/problems.h"
#include "cli/command_line/completion.h"
#include "cli/command_line/help.h"
#include "cli/commands/commands.h"
#include "cli/exit_codes.h"
#include "cli/find/find_job.h"
#include "cli/find/job_on_hosts.h"
#include "cli/job/connector.h"
#include "cli/plan/local_path.h"
#include "cli/plan/plan.h"
#include "cli/render/quote.h"
#include "cli/show/report.h"
#include "cli/stream/line_printer.h"
#include "cli/stream/print.h"

namespace tfdist::cli {
namespace {

constexpr const char* kJobHelp =
    "name, id or cluster file; default: the running job, else the newest";

// The chosen command, bound to its arguments.
using Command = std::function<int()>;
using Words = std::vector<std::string>;

bool TakesCommand(std::string_view name) {
  static constexpr std::string_view kWithCommand[] = {"init",   "up",    "render",
                                                      "export", "check", "exec"};
  return std::ranges::find(kWithCommand, name) != std::end(kWithCommand);
}

// The words after `--` of such a command, off the command line: CLI11 would take it for FILE.
Words TakeCommand(int& argc, char** argv) {
  if (argc < 2 || !TakesCommand(argv[1])) return {};
  char** end = argv + argc;
  char** dashes =
      std::find_if(argv, end, [](const char* word) { return word == std::string_view("--"); });
  if (dashes == end) return {};
  argc = static_cast<int>(dashes - argv);
  return {dashes + 1, end};
}

const CLI::Validator kNotEmpty(
    [](std::string& text) { return text.empty() ? "expected a value, got nothing" : ""; }, "");

// `down "$JOB"` without such a variable would mean whichever job runs.
void RefuseEmptyValues(CLI::App& app) {
  for (CLI::App* command : app.get_subcommands({})) {
    for (CLI::Option* option : command->get_options()) {
      if (option->get_expected_max() > 0) option->check(kNotEmpty);
    }
  }
}

// CLI11 would read -5 as a very large number.
const CLI::Validator kCount(
    [](std::string& text) {
      const bool digits = !text.empty() && text.find_first_not_of("0123456789") == text.npos;
      return digits ? "" : fmt::format("expected a whole number from 0 on, got {}", text);
    },
    "N");

const CLI::Validator kLocalPath(
    [](std::string& text) {
      text = WithHome(text);
      return "";
    },
    "");

// As TableReader::Choice. Help shows the words as those of CLI::IsMember.
CLI::Validator OneOfWords(std::vector<std::string_view> words) {
  std::string shown = fmt::format("{{{}}}", fmt::join(words, ","));
  const auto check = [words = std::move(words)](const std::string& word) -> std::string {
    if (std::ranges::find(words, word) != words.end()) return "";
    const std::string meant = DidYouMean(word, words);
    return fmt::format("expected {}, got '{}'{}{}", OneOf(words), word, meant.empty() ? "" : "; ",
                       meant);
  };
  return {check, std::move(shown)};
}

constexpr const char* kTransportHelp =
    "openssh: your own ssh program; auto (default), or ssh: tfdist itself, by libssh2, and your "
    "own for the hosts that need it; srun: steps of the Slurm allocation (default of -H slurm)";

CLI::Option* AddTransport(CLI::App& sub, std::string& transport) {
  return sub.add_option("--transport", transport, kTransportHelp)
      ->type_name("KIND")
      ->check(OneOfWords({"auto", "ssh", "openssh", "srun"}));
}

// After the option or positional that fills `hosts`, which would replace what this adds.
CLI::Option* AddHostFile(CLI::App& sub, std::function<void(Words)> add) {
  const auto add_all = [add = std::move(add)](const Words& paths) {
    for (const std::string& path : paths) add(HostsOfFile(path));
  };
  return sub
      .add_option_function<Words>(
          "--hostfile", add_all,
          "hosts from a file as for mpirun, DeepSpeed, PBS or LSF: gpu1 slots=4; - is the "
          "standard input")
      ->type_name("FILE")
      ->allow_extra_args(false);
}

CLI::Option* AddHostFile(CLI::App& sub, Words& hosts) {
  return AddHostFile(sub,
                     [&hosts](Words more) { std::ranges::move(more, std::back_inserter(hosts)); });
}

// `hosts`: with commas between them.
CLI::Option* AddHostFile(CLI::App& sub, std::string& hosts) {
  return AddHostFile(sub, [&hosts](const Words& more) {
    hosts += fmt::format("{}{}", hosts.empty() ? "" : ",", fmt::join(more, ","));
  });
}

// What `list`, `exec` and `clean` say of connections: a job and a file have that of their own.
template <typename Arguments>
void AddConnection(CLI::App& sub, Arguments& arguments) {
  sub.add_option("-F,--ssh-config", arguments.ssh_config, "with -H: as ssh -F")
      ->type_name("CONFIG");
  AddTransport(sub, arguments.transport);
}

template <typename Arguments>
void CheckConnection(const Arguments& arguments) {
  if (!arguments.hosts.empty()) return;
  if (!arguments.ssh_config.empty()) throw CLI::RequiresError("--ssh-config", "--hosts");
  if (!arguments.transport.empty()) throw CLI::RequiresError("--transport", "--hosts");
}

// Of the commands that take a job: where it is, if another machine has started it.
std::shared_ptr<JobPlace> AddJobPlace(CLI::App& sub) {
  auto place = std::make_shared<JobPlace>();
  auto* hosts = sub.add_option("-H,--hosts", place->hosts,
                               "hosts of a job that another machine has started: gpu1,gpu[3-6]")
                    ->type_name("HOST,...");
  sub.add_option("-F,--ssh-config", place->ssh_config, "with -H: as ssh -F")
      ->type_name("CONFIG")
      ->needs(hosts);
  AddTransport(sub, place->transport)->needs(hosts);
  return place;
}

// Of `render`, `check` and `up`. The command stands after `--`, and Main has taken it off.
void AddPlanSource(CLI::App& sub, PlanSource& source, const char* env_option) {
  source.command = sub.get_name();
  sub.add_option("FILE", source.file,
                 "cluster file; default: ./cluster.toml; - is the standard input. Words after -- "
                 "follow its command");
  sub.add_option("--set", source.settings,
                 "change a value of the cluster file for this run: task.env.LR=0.1")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  sub.add_option(env_option, source.job.env,
                 "a variable for all tasks: NAME takes its value from your shell; NAME=VALUE sets "
                 "one")
      ->type_name("NAME")
      ->allow_extra_args(false);
  const auto job_option = [&](const char* name, std::string& value, const char* type,
                              const char* help) {
    return sub.add_option(name, value, help)->type_name(type)->group("Without a file");
  };
  sub.add_option("-H,--hosts", source.job.hosts,
                 "run the command after -- on these hosts: gpu1,user@gpu2,gpu[3-6]; gpu7:4 has 4 "
                 "slots, which share its GPUs evenly")
      ->type_name("HOST,...")
      ->allow_extra_args(false)
      ->group("Without a file");
  AddHostFile(sub, source.job.hosts)->group("Without a file");
  job_option("--layout", source.job.layout, "LAYOUT",
             "mirrored (default): a worker in each slot, as mpirun, horovodrun and torchrun start "
             "them; uai: a parameter server and a trainer in each slot")
      ->check(OneOfWords({"mirrored", "uai"}));
  sub.add_option("--name", source.job.name, "job name (default: the file's, or the program's)")
      ->type_name("NAME");
  job_option("-F,--ssh-config", source.job.ssh_config, "CONFIG", "as ssh -F");
  AddTransport(sub, source.job.transport)->group("Without a file");
  auto* workdir =
      sub.add_option("--workdir", source.job.workdir,
                     "folder to send to each host, where tasks start; default: this one");
  workdir->type_name("FOLDER")->group("Without a file");
  sub.add_flag("--no-workdir", source.no_workdir, "send nothing")
      ->excludes(workdir)
      ->group("Without a file");
}

void AddRender(CLI::App& app, Command& command, const Words& words) {
  auto arguments = std::make_shared<RenderArguments>();
  CLI::App* sub = app.add_subcommand("render", "show what would run where; touches no host");
  AddPlanSource(*sub, arguments->source, "-e");  // --env shows a task's
  auto* env = sub->add_option("--env", arguments->env_of,
                              "print a task's environment as shell "
                              "lines");
  env->type_name("TASK");
  sub->add_flag("--json", arguments->json, "print the whole plan as JSON")->excludes(env);
  sub->callback([&command, arguments, &words] {
    arguments->source.job.command = words;
    command = [arguments] { return RenderCommand(*arguments); };
  });
}

void AddExport(CLI::App& app, Command& command, const Words& words) {
  auto arguments = std::make_shared<ExportArguments>();
  CLI::App* sub = app.add_subcommand("export", "print the job as a file of another engine");
  sub->add_option("FILE", arguments->file,
                  "cluster file; default: ./cluster.toml. Words after -- follow its command");
  sub->add_option("--to", arguments->engine,
                  "kubernetes: objects that need no operator; tfjob: an object of Kubeflow's; "
                  "compose: services of docker compose; slurm: a script for sbatch")
      ->type_name("ENGINE")
      ->required()
      ->check(OneOfWords({"kubernetes", "tfjob", "compose", "slurm"}));
  sub->add_option("--set", arguments->settings,
                  "change a value of the cluster file for this run: task.image=registry.lan/t:3")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  sub->add_option("--name", arguments->name, "job name (default: the file's)")->type_name("NAME");
  sub->footer(
      "The file says how it is started, waited for and ended there, and names what it does not "
      "carry over; warnings say the same.");
  sub->callback([&command, arguments, &words] {
    arguments->words = words;
    command = [arguments] { return ExportCommand(*arguments); };
  });
}

void AddImport(CLI::App& app, Command& command) {
  auto arguments = std::make_shared<ImportArguments>();
  CLI::App* sub = app.add_subcommand("import", "print a TFJob of Kubeflow as a cluster file");
  sub->add_option("FILE", arguments->file, "YAML with a TFJob; - is the standard input")
      ->required();
  sub->add_option("-H,--hosts", arguments->hosts,
                  "the hosts that are to run it: gpu1,user@gpu2,gpu[3-6]")
      ->type_name("HOST,...")
      ->allow_extra_args(false)
      ->required();
  AddHostFile(*sub, arguments->hosts);
  sub->footer("The file names what it does not carry over; warnings say the same.");
  sub->callback(
      [&command, arguments] { command = [arguments] { return ImportCommand(*arguments); }; });
}

void AddInit(CLI::App& app, Command& command, const Words& words) {
  auto arguments = std::make_shared<InitArguments>();
  CLI::App* sub = app.add_subcommand(
      "init", "look at hosts, and write a cluster file for them; leaves nothing there");
  sub->add_option("HOST", arguments->hosts, "gpu1, user@gpu2, gpu[3-6]; gpu7:4 has 4 slots");
  sub->add_option_function<Words>(
         "-H,--hosts",
         [hosts = &arguments->hosts](const Words& more) {
           hosts->insert(hosts->end(), more.begin(), more.end());
         },
         "the same, as other commands have it")
      ->type_name("HOST,...")
      ->allow_extra_args(false);
  AddHostFile(*sub, arguments->hosts);
  sub->add_option("-o,--output", arguments->output,
                  "write to FILE, which must not exist yet; default: to stdout")
      ->transform(kLocalPath)
      ->type_name("FILE");
  sub->add_flag("--json", arguments->json, "print the findings and the file's text as JSON");
  sub->add_option("-F,--ssh-config", arguments->ssh_config, "as ssh -F")->type_name("CONFIG");
  AddTransport(*sub, arguments->transport);
  sub->add_option("--name", arguments->name, "job name (default: this folder's)")
      ->type_name("NAME");
  sub->add_option("--layout", arguments->layout, "default: mirrored")
      ->type_name("LAYOUT")
      ->check(OneOfWords({"mirrored", "uai"}));
  sub->footer(
      "The file shows each host's GPUs, Python and TensorFlow. Its addresses are those of the "
      "fastest network in which all hosts have one and reach each other. A host that does not "
      "answer is left out, as a comment, and the exit code is 3. The words after -- are the job's "
      "command (default: python3 train.py).");
  sub->callback([&command, arguments, &words] {
    if (arguments->hosts.empty()) throw CLI::RequiredError("HOST");
    arguments->command = words;
    command = [arguments] { return InitCommand(*arguments); };
  });
}

void AddCheck(CLI::App& app, Command& command, const Words& words) {
  auto arguments = std::make_shared<CheckArguments>();
  CLI::App* sub = app.add_subcommand(
      "check",
      "find problems that would stop the job on its hosts; starts nothing, leaves nothing");
  AddPlanSource(*sub, arguments->source, "-e,--env");
  sub->add_flag("--json", arguments->json, "print JSON, for scripts");
  sub->callback([&command, arguments, &words] {
    arguments->source.job.command = words;
    command = [arguments] { return CheckCommand(*arguments); };
  });
}

void AddUp(CLI::App& app, Command& command, const Words& words) {
  auto arguments = std::make_shared<UpArguments>();
  CLI::App* sub = app.add_subcommand("up", "start the job and stream its output until it ends");
  AddPlanSource(*sub, arguments->source, "-e,--env");
  auto* detach = sub->add_flag("-d,--detach", arguments->detach, "return once the job runs");
  sub->add_flag("-q,--quiet", arguments->quiet,
                "print only task output, warnings and errors; with -d, only the job's id");
  sub->add_flag("--json", arguments->json, "with -d: print tasks, hosts and ports as JSON")
      ->needs(detach);
  sub->add_option("--label", arguments->labels,
                  "a note that list and describe show beside the job: lr=0.1")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  sub->add_flag(
      "--replace", arguments->replace,
      "take the place of the running job of this name: it ends once this one is ready to start");
  sub->add_flag("--take-keep", arguments->take_keep,
                "go on with what {keep} has, though another user's or machine's jobs kept it");
  sub->add_flag("--setup", arguments->set_up,
                "run the file's [setup] command again, even if it has run on the hosts");
  sub->add_flag("--timeline", arguments->timeline,
                "show how long each host's bring-up took, step by step, and which was slowest");
  sub->add_flag("--tensorboard", arguments->tensorboard,
                "show the job's TensorBoard, as tfdist tensorboard does, once there are event "
                "files; it ends with this command")
      ->excludes(detach);
  sub->callback([&command, arguments, &words] {
    arguments->source.job.command = words;
    command = [arguments] { return UpCommand(*arguments); };
  });
}

// Which job, and what of it. `shape` is how --help names them.
void AddWords(CLI::App& sub, Words& words, const char* shape, const char* help) {
  sub.add_option("WORDS", words, help)->type_name(shape);
}

void AddLogs(CLI::App& app, Command& command) {
  auto arguments = std::make_shared<LogsArguments>();
  CLI::App* sub = app.add_subcommand("logs", "show output of tasks, live or past");
  AddWords(*sub, arguments->words, "[JOB] [TASK|@HOST...]",
           "name, id or cluster file (default: the running job, else the newest); then worker:0, "
           "worker:[0-3], a task type for all of its tasks, @gpu1, @gpu[1-4]");
  sub->add_flag("-f,--follow", arguments->follow, "go on with new output until the job is over");
  sub->add_option("-n,--tail", arguments->tail, "show only the last N lines of each task")
      ->check(kCount);
  sub->add_option("--host", arguments->hosts, "show only tasks on these hosts: gpu1,gpu[3-6]")
      ->type_name("HOST,...")
      ->allow_extra_args(false)
      ->delimiter(',');
  auto* raw =
      sub->add_flag("--raw", arguments->raw, "one task's bytes as they are, without prefixes");
  auto* times =
      sub->add_flag("-t,--timestamps", arguments->timestamps, "put the time (UTC) before each line")
          ->excludes(raw);
  auto* as_json = sub->add_flag("--json", arguments->json, "print one JSON object per line")
                      ->excludes(raw)
                      ->excludes(times);
  sub->add_option("--from", arguments->from, "start at this byte of one task's output")
      ->check(kCount);
  sub->add_option("--since", arguments->since,
                  "show only lines from then on: an age (10m, 2h, 7d) or a time "
                  "(2026-08-01T12:00:00Z), by the clock of the job's first host")
      ->type_name("TIME");
  sub->add_option("--until", arguments->until, "show only lines from before then")
      ->type_name("TIME");
  sub->add_option("--grep", arguments->grep,
                  "show only lines that match this regular expression (as for grep -E); the hosts "
                  "search, and send only these")
      ->type_name("PATTERN");
  sub->add_flag("--stderr", arguments->stderr_alone,
                "show only stderr; for tasks with output = \"separate\"");
  sub->add_option("--attempt", arguments->attempt, "show only output of this attempt")
      ->check(kCount)
      ->type_name("N");
  sub->add_option("--save", arguments->save,
                  "write each task's bytes to FOLDER/worker-0.log instead of printing them")
      ->transform(kLocalPath)
      ->type_name("FOLDER")
      ->excludes(raw)
      ->excludes(as_json);
  const auto place = AddJobPlace(*sub);
  sub->callback([&command, arguments, place] {
    command = [arguments, place] {
      FindJobOfWords(*place, arguments->words, Deed::kLook);
      return LogsCommand(*arguments);
    };
  });
}

void AddExec(CLI::App& app, Command& command, const Words& words) {
  auto arguments = std::make_shared<ExecArguments>();
  CLI::App* sub = app.add_subcommand(
      "exec", "run the command after -- on hosts, or where tasks run, in parallel");
  AddWords(
      *sub, arguments->words, "[JOB] [TASK|HOST...]",
      "name, id or cluster file (default: the running job, else the newest); then hosts (gpu1, "
      "gpu[1-4], @gpu1) or tasks (worker:0, worker), in their folders; default: all hosts");
  sub->add_option("-H,--hosts", arguments->hosts, "on these hosts: gpu1,user@gpu2,gpu[3-6]")
      ->type_name("HOST,...");
  AddHostFile(*sub, arguments->hosts);
  AddConnection(*sub, *arguments);
  auto* gather =
      sub->add_flag("-g,--gather", arguments->gather,
                    "print equal output once, with the list of its hosts, when all have ended");
  sub->add_option("--timeout", arguments->timeout,
                  "end the command, or the login, after this time: 30s, 5m; exit code 124")
      ->type_name("TIME");
  sub->add_flag("--json", arguments->json,
                "print exit code and output of each as JSON, when all have ended")
      ->excludes(gather);
  sub->footer(
      "Hosts of a cluster file need no job. No shell reads the words after --. The command's stdin "
      "is empty; stdout and stderr come in "
      "the order of writing. Processes that it leaves in the background are ended with it. Exit "
      "code: the highest of all; 3 if a host could not be reached; 128 and the signal's number; "
      "130 after Ctrl-C.");
  sub->callback([&command, arguments, &words] {
    CheckConnection(*arguments);
    arguments->command = words;
    command = [arguments] { return ExecCommand(*arguments); };
  });
}

void AddShell(CLI::App& app, Command& command) {
  auto arguments = std::make_shared<ShellArguments>();
  CLI::App* sub =
      app.add_subcommand("shell", "open a shell on a host, or where a task runs (by ssh -t)");
  AddWords(*sub, arguments->words, "[JOB] TASK|HOST",
           "a job and a task or host, as for exec; with a task the shell has its environment and "
           "folder");
  sub->callback(
      [&command, arguments] { command = [arguments] { return ShellCommand(*arguments); }; });
}

void AddTensorBoard(CLI::App& app, Command& command) {
  auto arguments = std::make_shared<TensorBoardArguments>();
  CLI::App* sub = app.add_subcommand(
      "tensorboard", "show a job's TensorBoard, forwarded to this machine, until Ctrl-C");
  AddWords(*sub, arguments->words, "[JOB] [TASK]",
           "a job as for exec, then the task on whose host TensorBoard runs; default: the chief, "
           "else worker:0");
  sub->add_option(
         "--logdir", arguments->logdir,
         "folder of the event files on that host; default: [tensorboard] logdir of the cluster "
         "file, else `shared`, else the folder in which the task starts")
      ->type_name("FOLDER");
  sub->add_option("--port", arguments->port, "local port (default: any free port)")
      ->check(CLI::Range(1, 65535).description("PORT"));
  sub->add_flag("--wait", arguments->wait, "wait until there are event files");
  sub->add_flag("--fetch", arguments->fetch,
                "copy the event files here and run TensorBoard here; done anyway if the host has "
                "no TensorBoard");
  sub->add_flag("--open", arguments->open, "open the address with xdg-open");
  sub->add_option("--beside", arguments->beside)->group("");  // of `up --tensorboard` alone
  sub->callback(
      [&command, arguments] { command = [arguments] { return TensorBoardCommand(*arguments); }; });
}

void AddStatus(CLI::App& app, Command& command) {
  auto arguments = std::make_shared<StatusArguments>();
  CLI::App* sub = app.add_subcommand("status", "show the status of a job and its tasks");
  sub->add_option("JOB", arguments->jobs, kJobHelp);
  auto watch = std::make_shared<bool>(false);
  auto* as_json = sub->add_flag("--json", arguments->json, "print JSON, for scripts");
  auto* watch_flag =
      sub->add_flag("-w,--watch", *watch, "go on, as tfdist top does")->excludes(as_json);
  auto top = std::make_shared<TopArguments>();
  sub->add_option("--interval", top->interval, "with -w: refresh interval (default: 2s)")
      ->type_name("TIME")
      ->needs(watch_flag);
  const auto place = AddJobPlace(*sub);
  sub->callback([&command, arguments, watch, top, place] {
    command = [arguments, watch, top, place] {
      FindOnHosts(*place, arguments->jobs, Deed::kLook);
      if (!*watch) return StatusCommand(*arguments);
      if (arguments->jobs.size() > 1)
        throw UsageError(Phase::kUsage, "-w shows one job",
                         "tfdist status without -w shows several");
      if (!arguments->jobs.empty()) top->job = arguments->jobs[0];
      return TopCommand(*top);
    };
  });
}

void AddTop(CLI::App& app, Command& command) {
  auto arguments = std::make_shared<TopArguments>();
  CLI::App* sub = app.add_subcommand("top", "show CPU, memory and GPU use of each task, refreshed");
  sub->add_option("JOB", arguments->job, kJobHelp);
  sub->add_option("--interval", arguments->interval, "refresh interval (default: 2s)")
      ->type_name("TIME");
  sub->add_option("-n,--count", arguments->count,
                  "show N tables, then end (default: go on until "
                  "the job has ended)")
      ->check(kCount);
  sub->add_flag("--json", arguments->json, "print one JSON object per line");
  sub->footer(
      "A row counts a task's process and all that it has started: CPU in percent of one CPU, "
      "resident memory, and, as nvidia-smi shows it, how busy its GPUs are and how much of their "
      "memory it has. On a terminal the table stays in its place; elsewhere one table follows the "
      "other.");
  const auto place = AddJobPlace(*sub);
  sub->callback([&command, arguments, place] {
    command = [arguments, place] {
      FindOnHosts(*place, arguments->job);
      return TopCommand(*arguments);
    };
  });
}

void AddWait(CLI::App& app, Command& command) {
  auto arguments = std::make_shared<WaitArguments>();
  CLI::App* sub = app.add_subcommand(
      "wait", "wait for jobs to end; exits with the highest of their codes, as up does");
  sub->add_option("JOB", arguments->jobs, kJobHelp);
  sub->add_option("--timeout", arguments->timeout,
                  "stop waiting after this time: 30s, 5m; exit "
                  "code 124")
      ->type_name("TIME");
  sub->add_flag("--json", arguments->json, "print JSON, for scripts");
  const auto place = AddJobPlace(*sub);
  sub->callback([&command, arguments, place] {
    command = [arguments, place] {
      FindOnHosts(*place, arguments->jobs, Deed::kLook);
      return WaitCommand(*arguments);
    };
  });
}

void AddRestart(CLI::App& app, Command& command) {
  auto arguments = std::make_shared<RestartArguments>();
  CLI::App* sub = app.add_subcommand("restart", "end tasks and start them again");
  AddWords(*sub, arguments->words, "[JOB] [TASK...]",
           "name, id or cluster file (default: the running job); then tasks: worker:0, "
           "worker:[0-3], worker, @gpu1 (default: all tasks)");
  sub->add_flag("--json", arguments->json, "print JSON, for scripts");
  sub->footer(
      "A task whose rule in [restart] is \"gang\", a parameter server for example, takes all "
      "others with it. Each has its grace to end. This counts as no failure. Exit code 0 once "
      "they run again.");
  const auto place = AddJobPlace(*sub);
  sub->callback([&command, arguments, place] {
    command = [arguments, place] {
      FindJobOfWords(*place, arguments->words, Deed::kRestart);
      return RestartCommand(*arguments);
    };
  });
}

void AddWhy(CLI::App& app, Command& command) {
  auto arguments = std::make_shared<WhyArguments>();
  CLI::App* sub = app.add_subcommand(
      "why", "show which task failed first, what followed, and what a stalled job waits for");
  sub->add_option("JOB", arguments->job, kJobHelp);
  sub->add_flag("--json", arguments->json, "print JSON, for scripts");
  const auto place = AddJobPlace(*sub);
  sub->callback([&command, arguments, place] {
    command = [arguments, place] {
      FindOnHosts(*place, arguments->job);
      return WhyCommand(*arguments);
    };
  });
}

void AddPull(CLI::App& app, Command& command) {
  auto arguments = std::make_shared<PullArguments>();
  CLI::App* sub =
      app.add_subcommand("pull",
                         "bring home the files that tasks have written; goes on where it "
                         "was interrupted");
  AddWords(
      *sub, arguments->words, "[JOB] [PATH|TASK|@HOST...]",
      "name, id or cluster file (default: the running job, else the newest); then files, folders "
      "or patterns such as 'ckpt/*.bin' below the tasks' start folder (default: all), tasks, "
      "hosts");
  sub->add_option("--to", arguments->to, "into FOLDER/worker-0, ...; default: the job's id")
      ->transform(kLocalPath)
      ->type_name("FOLDER");
  sub->add_flag("-n,--dry-run", arguments->dry_run,
                "only show how much would come from which host");
  sub->add_flag("--json", arguments->json, "print JSON, for scripts");
  const auto place = AddJobPlace(*sub);
  sub->callback([&command, arguments, place] {
    command = [arguments, place] {
      FindJobOfWords(*place, arguments->words, Deed::kLook);
      return PullCommand(*arguments);
    };
  });
}

void AddDescribe(CLI::App& app, Command& command) {
  auto arguments = std::make_shared<DescribeArguments>();
  CLI::App* sub = app.add_subcommand(
      "describe", "show what a job was started with: commands, work folder, git commit, hosts");
  sub->add_option("JOB", arguments->job, kJobHelp);
  sub->add_flag("--json", arguments->json, "print JSON, for scripts");
  const auto place = AddJobPlace(*sub);
  sub->callback([&command, arguments, place] {
    command = [arguments, place] {
      FindOnHosts(*place, arguments->job);
      return DescribeCommand(*arguments);
    };
  });
}

void AddList(CLI::App& app, Command& command) {
  auto arguments = std::make_shared<ListArguments>();
  CLI::App* sub = app.add_subcommand(
      "list", "list jobs that were started from this machine, or all jobs that run on hosts");
  sub->add_flag("--json", arguments->json, "print JSON, for scripts");
  auto* file = sub->add_option("FILE", arguments->file,
                               "a cluster file: ask its hosts which jobs run there, of any user");
  auto* hosts =
      sub->add_option("-H,--hosts", arguments->hosts, "ask these hosts: gpu1,user@gpu2,gpu[3-6]")
          ->type_name("HOST,...")
          ->excludes(file);
  auto* host_file = AddHostFile(*sub, arguments->hosts)->excludes(file);
  sub->add_option("--label", arguments->labels,
                  "only jobs with this label (up --label); KEY: with any value")
      ->type_name("KEY[=VALUE]")
      ->allow_extra_args(false)
      ->excludes(file)
      ->excludes(hosts)
      ->excludes(host_file);
  AddConnection(*sub, *arguments);
  sub->callback([&command, arguments] {
    CheckConnection(*arguments);
    command = [arguments] { return ListCommand(*arguments); };
  });
}

void AddPrune(CLI::App& app, Command& command) {
  auto arguments = std::make_shared<PruneArguments>();
  CLI::App* sub = app.add_subcommand(
      "prune", "forget finished jobs that have left no files on their hosts, or named jobs");
  AddWords(*sub, arguments->jobs, "[JOB...]",
           "jobs to forget: by id at once; by name after a question, if files of their tasks are "
           "on the hosts, since no command finds these then");
  sub->add_flag("--json", arguments->json, "print JSON, for scripts, without a question");
  sub->callback(
      [&command, arguments] { command = [arguments] { return PruneCommand(*arguments); }; });
}

void AddEvents(CLI::App& app, Command& command) {
  auto arguments = std::make_shared<EventsArguments>();
  CLI::App* sub = app.add_subcommand("events", "show what happened to a job, from its event log");
  sub->add_option("JOB", arguments->job, kJobHelp);
  sub->add_flag("--json", arguments->json, "print one JSON object per line");
  const auto place = AddJobPlace(*sub);
  sub->callback([&command, arguments, place] {
    command = [arguments, place] {
      FindOnHosts(*place, arguments->job);
      return EventsCommand(*arguments);
    };
  });
}

void AddDown(CLI::App& app, Command& command) {
  auto arguments = std::make_shared<DownArguments>();
  CLI::App* sub = app.add_subcommand("down", "end jobs, and show what is left, host by host");
  sub->add_option("JOB", arguments->jobs, kJobHelp);
  sub->add_flag("--force", arguments->force, "kill at once, without grace");
  auto* purge = sub->add_flag(
      "--purge", arguments->purge,
      "remove logs and folders as well: of a named job, of the only job there is if it runs, or, "
      "after a question, of the one that runs or is the newest");
  sub->add_flag("-y,--yes", arguments->yes,
                "with --purge of the last job of a name: remove {keep} without a question")
      ->needs(purge);
  sub->add_flag("--json", arguments->json, "print JSON, for scripts");
  const auto place = AddJobPlace(*sub);
  sub->callback([&command, arguments, place] {
    command = [arguments, place] {
      FindOnHosts(*place, arguments->jobs, arguments->purge ? Deed::kPurge : Deed::kEnd);
      return DownCommand(*arguments);
    };
  });
}

void AddClean(CLI::App& app, Command& command) {
  auto arguments = std::make_shared<CleanArguments>();
  CLI::App* sub = app.add_subcommand(
      "clean", "remove caches and the file's finished jobs from its hosts, after a question");
  auto* file = sub->add_option("FILE", arguments->file, "cluster file; default: ./cluster.toml");
  sub->add_option("-H,--hosts", arguments->hosts,
                  "instead of FILE: finished jobs of any name on gpu1,user@gpu2,gpu[3-6]")
      ->type_name("HOST,...")
      ->excludes(file);
  AddHostFile(*sub, arguments->hosts)->excludes(file);
  AddConnection(*sub, *arguments);
  sub->add_flag("--all", arguments->all, "finished jobs of any name");
  sub->add_flag("--purge", arguments->purge,
                "remove {keep} too, where no job of its name is left to use it");
  sub->add_flag("-y,--yes", arguments->yes, "remove without a question");
  sub->add_flag("-n,--dry-run", arguments->dry_run, "list only");
  sub->add_flag("--json", arguments->json, "print JSON, for scripts, without a question");
  sub->add_option("--keep", arguments->keep, "leave the N newest of these jobs, and the caches")
      ->check(kCount);
  sub->add_option("--older-than", arguments->older_than,
                  "remove only jobs older than TIME (12h, 7d); the caches stay")
      ->type_name("TIME");
  sub->callback([&command, arguments] {
    CheckConnection(*arguments);
    command = [arguments] { return CleanCommand(*arguments); };
  });
}

void AddVersion(CLI::App& app, Command& command) {
  auto arguments = std::make_shared<VersionArguments>();
  CLI::App* sub = app.add_subcommand("version", "show the version, and what tfdist is built from");
  sub->add_flag("--verbose", arguments->verbose, "the libraries inside, with their versions");
  sub->add_flag("--json", arguments->json, "print JSON, for scripts");
  sub->callback(
      [&command, arguments] { command = [arguments] { return VersionCommand(*arguments); }; });
}

void AddSchema(CLI::App& app, Command& command) {
  auto of = std::make_shared<std::string>();
  CLI::App* sub =
      app.add_subcommand("schema", "print the JSON Schema of what commands print with --json");
  sub->add_option("COMMAND", *of, "the schema of this command's output: status");
  sub->callback([&command, of] { command = [of] { return SchemaCommand(*of); }; });
}

void AddCompletion(CLI::App& app, Command& command) {
  auto shell = std::make_shared<std::string>();
  CLI::App* sub = app.add_subcommand("completion",
                                     "print a completion script for your shell: eval \"$(tfdist "
                                     "completion bash)\"");
  sub->add_option("SHELL", *shell, "bash, zsh or fish")->required();
  sub->callback([&command, shell] {
    command = [shell] {
      PrintLines(std::string(CompletionScript(*shell)));
      return kExitSuccess;
    };
  });
}

// What a command has said has been written, or is an error.
int Flushed(int exit_code) {
  FlushOutput();
  return exit_code;
}

int Told(const Error& error) {
  PrintError(error);
  return error.phase() == Phase::kInternal ? kExitInternal : kExitHost;
}

int AfterClosedOutput(const OutputClosed& error) {
  const bool is_no_error = error.reader_left() && !error.has_done();
  if (is_no_error) return kExitSuccess;  // `tfdist logs | head`
  Say("tfdist: {}\n", error.cause());
  return error.reader_left() ? kExitOutputClosed : kExitOutput;
}

// The library names its own function, and no remedy.
Error PlainError(const std::filesystem::filesystem_error& error) {
  std::error_code gone;
  (void)std::filesystem::current_path(gone);
  if (gone) {
    return Error(Phase::kFiles,
                 fmt::format("the current folder is not there any more: {}", gone.message()),
                 "cd to a folder that is there, and call tfdist again");
  }
  const std::string path = error.path1().string();
  const bool is_file_above = error.code() == std::errc::not_a_directory;
  return Error(Phase::kFiles,
               fmt::format("{}{}{}", path, path.empty() ? "" : ": ", error.code().message()),
               is_file_above ? "name a folder: that path, or a part of it, is a file" : "");
}

int ExitCodeOf(const std::function<int()>& work) {
  try {
    return Flushed(work());
  } catch (const PlanErrors& errors) {
    SayLines(errors.Report());
    return kExitUsage;
  } catch (const NoSuchJob& error) {
    PrintError(error);
    return kExitNoJob;
  } catch (const OutputClosed& error) {
    return AfterClosedOutput(error);
  } catch (const UsageError& error) {
    PrintError(error);
    return kExitUsage;
  } catch (const std::filesystem::filesystem_error& error) {
    return Told(PlainError(error));
  } catch (...) {
    return Told(CurrentError());
  }
}

// What the same is called by mpirun, docker, kubectl, Slurm and ray.
constexpr std::array<std::pair<std::string_view, std::string_view>, 38> kWordsOfOthers = {
    {{"attach", "logs -f"},
     {"cancel", "down"},
     {"copy", "pull"},
     {"cp", "pull"},
     {"delete", "down --purge"},
     {"halt", "down"},
     {"info", "describe"},
     {"inspect", "describe"},
     {"jobs", "list"},
     {"kill", "down"},
     {"launch", "up"},
     {"log", "logs"},
     {"ls", "list"},
     {"ps", "status"},
     {"queue", "list"},
     {"remove", "down --purge"},
     {"rm", "down --purge"},
     {"run", "up"},
     {"sbatch", "up -d"},
     {"scancel", "down"},
     {"show", "describe"},
     {"squeue", "list"},
     {"srun", "up"},
     {"start", "up"},
     {"stop", "down"},
     {"submit", "up -d"},
     {"tail", "logs -f"},
     {"apply", "up"},
     {"bkill", "down"},
     {"bsub", "up -d"},
     {"qdel", "down"},
     {"qstat", "list"},
     {"qsub", "up -d"},
     {"rsync", "pull"},
     {"scp", "pull"},
     {"ssh", "shell"},
     {"torchrun", "up"}}};

std::string CommandFor(std::string_view word, const std::vector<std::string_view>& known) {
  const auto* other =
      std::ranges::find(kWordsOfOthers, word, &decltype(kWordsOfOthers)::value_type::first);
  if (other == kWordsOfOthers.end()) return DidYouMean(word, known);
  return fmt::format("did you mean '{}'?", other->second);
}

// CLI11 itself would only say that a command is missing.
void CheckCommand(const CLI::App& app, const std::string& word) {
  const auto commands = app.get_subcommands([](const CLI::App*) { return true; });
  Words names = {"help"};
  for (const CLI::App* command : commands) names.push_back(command->get_name());
  const std::vector<std::string_view> known(names.begin(), names.end());
  if (std::ranges::find(names, word) != names.end()) return;
  const std::string nearest = CommandFor(word, known);
  throw UsageError(
      Phase::kUsage,
      fmt::format("there is no command '{}'{}{}", word, nearest.empty() ? "" : "; ", nearest),
      "tfdist --help");
}

// `tfdist help` and `tfdist help up`, as their --help.
Words WithHelpAsOption(int argc, char** argv) {
  Words words(argv + 1, argv + argc);
  if (words.empty() || words[0] != "help") return words;
  words.erase(words.begin());
  words.resize(std::min<size_t>(words.size(), 1));
  words.emplace_back("--help");
  return words;
}

// Of "--venv" and "--log-limit=1g", which are keys of the cluster file.
std::string SetMeant(std::string_view word) {
  std::string key(word.substr(2, word.find('=') - 2));
  std::ranges::replace(key, '-', '_');
  const std::string set = SetForKey(key);
  return set.empty() ? "" : fmt::format("did you mean '{}'?", set);
}

struct OptionOfOthers {
  std::string_view command, option, hint;
};
constexpr std::string_view kHostsAndTasks =
    "-H gpu1:4,gpu2:4 says which hosts, and how many tasks on each";
constexpr std::string_view kNoDryRun = "tfdist render shows what would run where";
constexpr std::string_view kGpus = "did you mean '--set task.gpus=...'?";
constexpr OptionOfOthers kOptionsOfOthers[] = {
    {"down", "--all", "name the jobs: tfdist list shows them"},
    {"exec", "-i", "tfdist shell opens a shell there"},
    {"exec", "-it", "tfdist shell opens a shell there"},
    {"exec", "-t", "tfdist shell opens a shell there"},
    {"list", "--all", "it shows all jobs that this machine knows"},
    {"list", "-a", "it shows all jobs that this machine knows"},
    {"logs", "--lines", "did you mean '--tail'?"},
    {"status", "--wait", "tfdist wait waits for the end"},
    {"status", "-f", "did you mean '--watch'?"},
    {"up", "--background", "did you mean '--detach'?"},
    {"up", "--dry-run", kNoDryRun},
    {"up", "--gpu", kGpus},
    {"up", "--gpus", kGpus},
    {"up", "--gpus-per-node", kGpus},
    {"up", "--nnodes", kHostsAndTasks},
    {"up", "--nodes", kHostsAndTasks},
    {"up", "--nproc-per-node", kHostsAndTasks},
    {"up", "--nproc_per_node", kHostsAndTasks},
    {"up", "--ntasks", kHostsAndTasks},
    {"up", "--ntasks-per-node", kHostsAndTasks},
    {"up", "-N", kHostsAndTasks},
    {"up", "-n", kNoDryRun},
    {"up", "-np", kHostsAndTasks},
};

std::string HintOfOthers(const CLI::App& app, std::string_view word) {
  const auto commands = app.get_subcommands();
  for (const auto& [command, option, hint] : kOptionsOfOthers) {
    if (!commands.empty() && commands[0]->get_name() == command &&
        word.substr(0, word.find('=')) == option)
      return std::string(hint);
  }
  return "";
}

// "; did you mean '--json'?", or empty.
std::string OptionMeant(const CLI::App& app, const Words& unknown) {
  Words names;
  for (const CLI::App* command : app.get_subcommands()) {
    for (const CLI::Option* option : command->get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
  }
  const std::vector<std::string_view> known(names.begin(), names.end());
  for (const std::string& word : unknown) {
    if (const std::string hint = HintOfOthers(app, word); !hint.empty()) return "; " + hint;
    if (!word.starts_with("--")) continue;
    const bool takes_set = std::ranges::find(names, "--set") != names.end();
    std::string meant = takes_set ? SetMeant(word) : "";
    if (meant.empty()) meant = DidYouMean(word, known);
    if (!meant.empty()) return "; " + meant;
  }
  return "";
}

// An unknown option says so, even where something else is missing, too.
std::string CauseOf(const CLI::App& app, const CLI::ParseError& error) {
  const bool missing = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  const bool extra = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  // The value of an unknown option may have been taken for a file.
  const bool excluded = dynamic_cast<const CLI::ExcludesError*>(&error) != nullptr;
  Words unknown = missing || extra || excluded ? app.remaining(true) : Words();
  std::string said = error.what();
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr && said.ends_with(" missing")) {
    return fmt::format("{} needs a value", said.substr(0, said.find(':')));
  }
  if (unknown.empty()) return said;
  return fmt::format("unknown: {}{}", fmt::join(unknown, " "), OptionMeant(app, unknown));
}

// `words` outlives the parsing.
void AddCommands(CLI::App& app, Command& command, const Words& words) {
  app.require_subcommand(1);
  AddInit(app, command, words);
  AddRender(app, command, words);
  AddCheck(app, command, words);
  AddUp(app, command, words);
  AddExec(app, command, words);
  AddExport(app, command, words);
  for (auto add : {AddImport, AddShell, AddTensorBoard, AddLogs, AddStatus, AddTop, AddWhy, AddWait,
                   AddRestart, AddPull, AddDescribe, AddList, AddEvents, AddDown, AddClean,
                   AddPrune, AddSchema, AddCompletion, AddVersion}) {
    add(app, command);
  }
}

// What --help and --version print.
void PrintHelp(const CLI::App& app, const CLI::Success& asked) {
  std::ostringstream text;
  app.exit(asked, text, text);
  PrintLines(text.str());
}

std::string HelpFor(const CLI::App& app) {
  const auto commands = app.get_subcommands();
  return commands.empty() ? "tfdist --help" : "tfdist " + commands[0]->get_name() + " --help";
}

// `tfdist up -H gpu1 python3 train.py`: its words without options are those of a command.
bool LacksDashes(const CLI::App& app, const CLI::ParseError& error, const Words& command) {
  const auto commands = app.get_subcommands();
  if (!command.empty() || commands.empty() || !TakesCommand(commands[0]->get_name())) return false;
  const Words unknown = app.remaining(true);
  return dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr &&
         std::ranges::any_of(unknown, [](const auto& word) { return !word.starts_with('-'); });
}

// `tfdist up cluster.toml --lr 0.2`: what no option is called, nor nearly, is for the file's command. Empty: it is not.
std::string WordsForTheFile(const CLI::App& app, const CLI::ParseError& error,
                            const Words& command) {
  const auto commands = app.get_subcommands();
  if (!command.empty() || commands.empty() || !TakesCommand(commands[0]->get_name())) return "";
  if (dynamic_cast<const CLI::ExtrasError*>(&error) == nullptr) return "";
  const CLI::Option* file = commands[0]->get_option_no_throw("FILE");
  if (file == nullptr || file->empty() || !LooksLikeAFile(file->results()[0])) return "";
  const Words unknown = app.remaining(true);
  if (!OptionMeant(app, unknown).empty()) return "";
  std::string line = fmt::format("tfdist {} {} --", commands[0]->get_name(), file->results()[0]);
  for (const std::string& word : unknown) line += " " + ShellWord(word);
  return line;
}

std::string RemedyFor(const CLI::App& app, const CLI::ParseError& error, const Words& command) {
  if (const std::string line = WordsForTheFile(app, error, command); !line.empty()) {
    return "words for the program stand after --: " + line;
  }
  const Words unknown = app.remaining(true);
  if (HelpFor(app) == "tfdist restart --help" && !unknown.empty()) {
    return fmt::format(
        "a restart runs the same command; tfdist up --replace ... -- {} ends the job and "
        "starts it with these words",
        fmt::join(unknown, " "));
  }
  if (HelpFor(app) == "tfdist shell --help" && !unknown.empty()) {
    return fmt::format("exec runs one command: tfdist exec TASK -- {}", fmt::join(unknown, " "));
  }
  const bool has_option = !unknown.empty() && unknown[0].starts_with('-');
  if (has_option && !OptionMeant(app, unknown).empty()) return HelpFor(app);
  if (!LacksDashes(app, error, command)) return HelpFor(app);
  return fmt::format("the command goes after --: tfdist {} -H gpu1,gpu2 -- python3 train.py",
                     app.get_subcommands()[0]->get_name());
}

// For the scripts of `tfdist completion`: a word, a tab and its help on each line.
int PrintCandidates(const CLI::App& app, const Words& words) {
  for (const Candidate& candidate : Candidates(app, words)) {
    Print("{}\t{}\n", candidate.word, candidate.help);
  }
  return kExitSuccess;
}

// CLI11 reads `-host gpu1` as -h with more letters: help, and a success that a script believes.
void CheckHelp(const Words& arguments) {
  constexpr std::string_view kHelp = "-h";
  for (const std::string& word : arguments) {
    if (!word.starts_with(kHelp) || word == kHelp) continue;
    throw UsageError(Phase::kUsage, fmt::format("unknown: {}; did you mean '-H'?", word),
                     "-H gpu1,gpu2 names hosts; -h prints help");
  }
}

int Run(int argc, char** argv) {
  Command command;
  const Words words = TakeCommand(argc, argv);
  CLI::App app("Run a distributed training job over SSH", "tfdist");
  app.set_version_flag("-V,--version", VersionLine());
  app.footer(
      "Exit codes: 0 success; 1 the job failed, or `down` could not confirm that nothing is left; "
      "2 wrong usage, a bad cluster file, or several jobs match; 3 a host could not be brought up "
      "or reached, or `check` found an error; 4 no such job, or another one of that name is "
      "running; 70 internal error; 74 the output could not be written; 124 --timeout; 130 "
      "interrupted; 141 nobody reads the output of `up`.");
  app.formatter(HelpFormat());  // before the commands, which inherit it
  AddCommands(app, command, words);
  RefuseEmptyValues(app);
  // For installation.
  if (argc == 2 && argv[1] == std::string_view("__man")) {
    PrintLines(ManPage(app, VersionLine()));
    return kExitSuccess;
  }
  if (argc > 1 && argv[1] == std::string_view("__complete")) {
    return PrintCandidates(app, {argv + 2, argv + argc});
  }
  Words arguments = WithHelpAsOption(argc, argv);
  if (arguments.empty()) arguments = {"--help"};
  if (!arguments.empty() && arguments[0][0] != '-') CheckCommand(app, arguments[0]);
  std::ranges::reverse(arguments);  // as CLI11 takes them
  try {
    app.parse(Words(arguments));
  } catch (const CLI::Success& asked) {
    CheckHelp(arguments);
    PrintHelp(app, asked);
    return kExitSuccess;
  } catch (const CLI::ParseError& error) {
    throw UsageError(Phase::kUsage, CauseOf(app, error), RemedyFor(app, error, words));
  }
  return command();
}

}  // namespace

int Main(int argc, char** argv) {
  RaiseDescriptorLimit();
  SetConnectionNotes([](const std::string& host, const std::string& note) {
    Say("tfdist: {}: {}\n", host, note);
  });
  return ExitCodeOf([argc, argv] { return Run(argc, argv); });
}

}  // namespace tfdist::cli
