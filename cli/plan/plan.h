// The Plan: a cluster file as one plain value. When a Plan exists, all mistakes of the input have
// been reported; no later code reads the TOML.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/tf_config.h"
#include "wire/protocol.h"

namespace tfdist::cli {

// How a host is reached.
struct HostPlan {
  std::string name;     // as the cluster file has it: for messages; unique but for slots > 1
  std::string address;  // as other hosts and TF_CONFIG reach it; numeric or a name, no brackets
  std::string ssh;  // what is given to ssh(1)'s configuration: alias or address; empty: not known
  // What that configuration calls the host, where its address is an alias there; else, and where AskForHostNames
  // (hosts/host_names.h) was not called, empty.
  std::string host_name;
  std::string ssh_user;         // of this host alone; empty: as SshOptions say
  std::optional<int> ssh_port;  // the same
  std::string transport;        // the same: "auto", "ssh", "openssh", "srun"
  std::string slurm_job;        // srun: the allocation whose node `ssh` is; else empty
  bool local = false;           // transport = "local": no SSH
  bool spare = false;
  int slots = 1;                 // of its machine, this one too
  bool first_of_machine = true;  // of these slots
  // That the file lists: "0", "GPU-6d2b..."; empty: not said, or none.
  std::vector<std::string> gpus;
  // Variables of tasks there, over what the file says for all hosts.
  std::vector<std::pair<std::string, protocol::Text>> env;
};

struct TaskOnHost {
  TaskId id;
  int slot = 0;  // index into Plan::hosts
  int port = 0;  // 0: a task outside the cluster spec, without a port (evaluator)
  std::map<std::string, int> more_ports;  // beside it, by name
  // Counted from 0 over the cluster spec: the chief, then the other task types in the order of the
  // alphabet, ps last (run_config.py, _get_global_id_in_cluster); -1: outside of it (evaluator).
  int rank = -1;
  // The same among the tasks of one machine, how many those are, and which machine: from 0, that of rank 0 first.
  int local_rank = -1;
  int local_world_size = 0;
  int node_rank = -1;
  bool chief = false;
  bool decides = false;  // see protocol::TaskPlan
  bool may_fail = false;
  protocol::RestartRule restart;
  // GPUs: nullopt = CUDA_VISIBLE_DEVICES is not set (sees all), else exactly these (may be none).
  std::optional<std::vector<std::string>> gpus;
  std::optional<protocol::GpuShare> gpu_share;  // instead of `gpus`: decided on the host
  std::vector<protocol::Text> argv;
  std::optional<protocol::ContainerDescription> container;  // else it runs on the host itself
  std::optional<size_t> own_image;                          // which of Plan::images that is
  protocol::Text cwd;                                       // as protocol::TaskDescription's
  protocol::Text conda;                                     // the same
  // CUDA_VISIBLE_DEVICES and the user's; in order, without doubles. DescribeTask puts TF_CONFIG in
  // front (kept here, it would take the square of the number of tasks); the agent adds TFDIST_*.
  std::vector<std::pair<std::string, protocol::Text>> env;
  bool merged_output = true;
  int64_t log_limit_bytes = 1 << 30;
  int64_t grace_ms = 10'000;
};

// What each host runs once, before the tasks.
struct SetUpPlan {
  std::vector<protocol::Text> argv;
  std::vector<std::pair<std::string, protocol::Text>> env;  // as TaskOnHost's
  std::vector<std::string> inputs;                          // files and folders below the workdir
  int64_t timeout_ms = 1'800'000;
};

// What tasks read as {data:NAME}.
struct DataPlan {
  std::string name;
  protocol::Text path;           // of the hosts, absolute; empty: it is sent
  std::filesystem::path source;  // of this machine, absolute, where it is sent
};

// An image of this machine's, which hosts are sent.
struct ImagePlan {
  std::filesystem::path archive;  // absolute; empty: a container engine of this machine has it
  std::string name;               // there; of an archive's only image: empty
  // What follows is known once somebody has looked (cli/image/find_images.h).
  std::string engine;               // "docker", of this machine
  std::string key;                  // by its content: 64 hexadecimal digits
  std::string reference;            // by which the hosts' engines know it
  std::string architecture;         // "amd64"
  std::vector<std::string> layers;  // as protocol::WantedImage's
  uint64_t size_bytes = 0;
};

struct SshOptions {
  std::string user;  // empty: as ~/.ssh/config says
  std::optional<int> port;
  std::string identity_file;     // empty: as ~/.ssh/config says
  std::filesystem::path config;  // empty: ssh's own; else as ssh -F
  std::string host_keys;         // strict | accept-new; empty: as ~/.ssh/config says
  std::string transport =
      "auto";              // auto, ssh: libssh2, then the user's ssh program; openssh: that only
  std::string remote_dir;  // empty: the documented candidates
};

struct Plan {
  std::filesystem::path file;  // the cluster file, absolute; empty: there is none
  std::string name;
  bool name_is_made = false;  // of the command: nobody has said it
  bool draws_ports =
      false;           // nobody has said the tasks' ports, or some are "auto": others would do
  std::string layout;  // uai | mirrored | roles
  std::vector<HostPlan> hosts;    // index = slot; slot 0 carries the coordinator; spares last
  std::vector<TaskOnHost> tasks;  // in the order of `render`
  ClusterSpec cluster;
  int world_size = 0;            // tasks with a rank
  int node_count = 0;            // machines that have one
  protocol::CommonTexts common;  // cluster_spec.h has their names
  protocol::OnHostLost on_host_lost = protocol::OnHostLost::kWait;
  int64_t host_lost_ms = 11'000;                 // of silence
  bool exclusive = false;                        // of the places of lost hosts
  int64_t orphan_timeout_ms = 300'000;           // of silence, for an agent
  int64_t deadline_ms = 0;                       // 0: none
  bool deadline_succeeds = false;                // see protocol::JobPlan
  int64_t warning_ms = 0;                        // before the deadline; 0: none
  int warning_signal = 0;                        // that tasks get then
  int64_t finish_timeout_ms = 0;                 // 0: none
  int64_t rest_timeout_ms = 0;                   // the same
  int64_t silent_after_ms = 60'000;              // without output from any task
  std::optional<std::filesystem::path> workdir;  // absolute
  std::optional<SetUpPlan> set_up;
  std::vector<DataPlan> data;       // in the order of their names
  std::vector<ImagePlan> images;    // of this machine; each once
  bool needs_runtime = false;       // some argv or env holds {runtime}
  bool needs_cuda_runtime = false;  // the same of its CUDA twin (runtime_choice.h)
  std::string shared;               // absolute path on the hosts, or empty
  std::string
      logdir;  // of TensorBoard: absolute, or relative to the tasks' folder; empty: not said
  int control_port = 0;  // 0: any free one
  // Tasks connect to each other's, or the file names some. Nobody connects to that of a lone task.
  bool needs_ports = false;
  SshOptions ssh;
  std::vector<std::string> python_packages;  // whose versions `check` compares
  std::vector<std::string> warnings;         // of what is no mistake; a line each
  // Of the user's shell, which `env_from` names and which are not set: no task can start without them.
  std::vector<std::string> missing_variables;
};

// What the command line changes of a cluster file.
struct PlanChanges {
  std::vector<std::string> settings;   // "task.grace=1m" (cluster_file/set_values.h)
  std::vector<std::string> arguments;  // behind those of [task] command
  std::vector<std::string> env;        // as CommandLineJob has it
  int port_draw = 0;                   // as ClusterFile has it
  std::function<std::string(const std::string& type, int index)> own_host = {};  // the same
};

// Reads and checks a cluster file; "-": the standard input, whose files count from the current
// folder. Throws PlanErrors with every mistake found.
Plan LoadPlan(const std::filesystem::path& file, const PlanChanges& changes = {});

// The plan of the cluster file that says the same (cluster_file/command_line_job.h). Throws
// PlanErrors.
struct CommandLineJob;
Plan PlanCommandLine(const CommandLineJob& job);

}  // namespace tfdist::cli
