// The commands of tfdist, each with its arguments. They return the exit code; errors are thrown and
// told by main.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/cluster_file/command_line_job.h"
#include "cli/plan/plan.h"

namespace tfdist::cli {

// What `render`, `check` and `up` make their plan from: a cluster file ("-": the standard input), or hosts
// and a command.
struct PlanSource {
  std::string command = "up";  // of tfdist, for messages
  std::string file;
  CommandLineJob job;  // where it has a command; `hosts` may stand in `file` then
  bool no_workdir = false;
  std::vector<std::string> settings;  // "task.grace=1m"
  int port_draw = 0;  // as ClusterFile has it: not 0 where the same was loaded before
};
// Throws PlanErrors, or Error(kUsage) where it says neither and there is no cluster.toml. Prints the plan's warnings, once.
Plan LoadPlan(PlanSource source);
// The cluster file that a user means by `said`. A folder, or nothing, means the cluster.toml in it, which is then printed;
// anything else is the file itself. Returns "" where `said` is empty and the current folder has no cluster.toml.
// Throws Error(kUsage) where the folder has none.
std::string FindClusterFile(const std::string& said);

struct RenderArguments {
  PlanSource source;
  std::string env_of;  // a task: show its environment as shell lines
  bool json = false;
};
int RenderCommand(const RenderArguments& arguments);

struct ExportArguments {
  std::string file;                   // empty: the cluster.toml of the current folder
  std::string engine;                 // "kubernetes", "tfjob", "compose", "slurm"
  std::vector<std::string> settings;  // as PlanSource's
  std::string name;                   // empty: the file's
  std::vector<std::string> words;     // behind the command of the file
};
int ExportCommand(const ExportArguments& arguments);

struct ImportArguments {
  std::string file;                // "-": the standard input
  std::vector<std::string> hosts;  // as those of CommandLineJob
};
int ImportCommand(const ImportArguments& arguments);

struct InitArguments {
  std::vector<std::string> hosts;  // as those of CommandLineJob
  std::string ssh_config;          // as ssh -F
  std::string transport;           // of [ssh]; empty: not said
  std::string output;              // a file that there is not; empty: stdout
  std::string name;                // empty: that of the folder
  std::string layout = "mirrored";
  std::vector<std::string> command;  // empty: python3 train.py
  bool json = false;                 // what was found, the file's text too
};
int InitCommand(InitArguments arguments);

struct CheckArguments {
  PlanSource source;
  bool json = false;
};
int CheckCommand(const CheckArguments& arguments);

struct UpArguments {
  PlanSource source;
  bool detach = false;
  bool replace = false;
  bool quiet = false;  // warnings, errors and the tasks' output alone
  bool timeline = false;
  bool tensorboard = false;
  bool set_up = false;              // anew, though it has been run
  bool take_keep = false;           // whoever has kept what is in {keep}
  std::vector<std::string> labels;  // "KEY=VALUE"
  bool json = false;                // with `detach`
};
int UpCommand(const UpArguments& arguments);

struct LogsArguments {
  std::vector<std::string> words;  // the job, then tasks and hosts; each may be missing
  bool follow = false;
  bool raw = false;
  bool timestamps = false;
  std::vector<std::string> hosts;  // ranges too; empty: all
  std::optional<uint64_t> from;
  std::optional<uint64_t> tail;
  std::string since;  // moment.h; empty: from the beginning
  std::string until;
  std::string grep;
  bool stderr_alone = false;
  std::optional<int> attempt;  // of all: empty
  std::string save;            // a folder; empty: print
  bool json = false;           // an object a line
};
int LogsCommand(const LogsArguments& arguments);

struct ExecArguments {
  std::string hosts;               // of -H: a list with commas; empty: hosts of a job or a file
  std::string ssh_config;          // with -H: as ssh -F
  std::string transport;           // with -H: of [ssh]; empty: not said
  std::vector<std::string> words;  // a job or a cluster file, then tasks and hosts
  std::vector<std::string> command;
  bool gather = false;
  std::string timeout;  // "30s"; empty: none
  bool json = false;
};
int ExecCommand(const ExecArguments& arguments);

struct ShellArguments {
  std::vector<std::string> words;  // a job or a cluster file, then a task or a host
};
int ShellCommand(const ShellArguments& arguments);

struct TensorBoardArguments {
  std::vector<std::string> words;  // a job or a cluster file, then a task or a host
  std::string logdir;              // empty: as the cluster file says
  int port = 0;                    // of this machine; 0: any free one
  bool wait = false;
  bool fetch = false;
  bool open = false;
  int beside = 0;  // the process of an `up` whose child this is: speaks and ends as that needs it
};
int TensorBoardCommand(const TensorBoardArguments& arguments);

struct StatusArguments {
  std::vector<std::string> jobs;  // of each as FindJob has it; empty: the one that no word means
  bool json = false;
};
int StatusCommand(const StatusArguments& arguments);

struct TopArguments {
  std::string job;
  std::string interval = "2s";
  std::optional<uint64_t> count;  // of looks; absent: until the job has ended
  bool json = false;
};
int TopCommand(const TopArguments& arguments);

struct WaitArguments {
  std::vector<std::string> jobs;  // none: the one that no word means
  bool json = false;              // an object for each
  std::string timeout;            // "30s"; empty: none
};
int WaitCommand(const WaitArguments& arguments);

struct RestartArguments {
  std::vector<std::string> words;  // a job, then tasks and hosts; none: all tasks
  bool json = false;
};
int RestartCommand(const RestartArguments& arguments);

struct WhyArguments {
  std::string job;
  bool json = false;
};
int WhyCommand(const WhyArguments& arguments);

struct PullArguments {
  std::vector<std::string> words;  // a job, then paths, tasks and hosts
  std::string to;                  // a folder; empty: called after the job, here
  bool dry_run = false;
  bool json = false;
};
int PullCommand(const PullArguments& arguments);

struct DescribeArguments {
  std::string job;
  bool json = false;
};
int DescribeCommand(const DescribeArguments& arguments);

struct ListArguments {
  std::string file;        // a cluster file: what runs on its hosts; empty: jobs of this machine
  std::string hosts;       // of -H: the same
  std::string ssh_config;  // with -H: as ssh -F
  std::string transport;   // with -H: of [ssh]; empty: not said
  bool json = false;       // of jobs of this machine
  std::vector<std::string> labels;  // likewise: only those with each, "KEY" or "KEY=VALUE"
};
int ListCommand(const ListArguments& arguments);

struct PruneArguments {
  std::vector<std::string>
      jobs;           // names or ids; none: all that are over and have left no files of tasks
  bool json = false;  // and no question
};
int PruneCommand(const PruneArguments& arguments);

// The JSON Schema of what a command prints with --json; `command` empty: of all.
int SchemaCommand(const std::string& command);

struct EventsArguments {
  std::string job;
  bool json = false;
};
int EventsCommand(const EventsArguments& arguments);

struct DownArguments {
  std::vector<std::string> jobs;  // none: the one that no word means
  bool purge = false;
  bool yes = false;  // with `purge`: {keep} too, without a question
  bool force = false;
  bool json = false;  // an object for each
};
int DownCommand(const DownArguments& arguments);

struct CleanArguments {
  std::string file;
  std::string hosts;  // of -H, instead of a file: finished jobs of any name
  std::string ssh_config;
  std::string transport;
  bool all = false;              // jobs of any name
  bool purge = false;            // {keep} too, of names of which no job stays
  bool yes = false;              // without a question
  bool dry_run = false;          // shows only
  std::optional<uint64_t> keep;  // how many of the newest jobs stay
  std::string older_than;        // "12h"; empty: of any age
  bool json = false;             // and no question
};
int CleanCommand(const CleanArguments& arguments);

struct VersionArguments {
  bool verbose = false;  // the libraries inside as well
  bool json = false;
};
int VersionCommand(const VersionArguments& arguments);
// "tfdist 0.1.0 (agent 0123456789ab)"
std::string VersionLine();

}  // namespace tfdist::cli
