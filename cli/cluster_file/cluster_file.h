// A cluster file as it was written: every value checked by itself, nothing worked out yet. What is
// absent here was not said (or was a mistake that is reported already).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/cluster_file/problems.h"
#include "wire/protocol.h"

namespace tfdist::cli {

// One host; ranges are expanded, `slots` is not.
struct HostEntry {
  Where where;
  std::string address;          // without brackets
  std::string ssh;              // as SSH knows it; the address when not said
  std::string ssh_user;         // "user@gpu7"; empty: not said
  std::optional<int> ssh_port;  // "gpu7:2200"
  std::string transport;        // "auto", "ssh", "openssh", "srun"; empty: not said
  std::string slurm_job;        // whose node it is; empty: not known to be one
  bool own_ssh = false;  // one of the three was said: SSH tells apart what its address does not
  bool table = false;    // { address = ... }: more than a reference to a host named elsewhere
  bool local = false;
  bool spare = false;
  int slots = 1;
  std::optional<std::vector<std::string>> gpus;     // as GpuRequest::list
  std::map<std::string, Located<std::string>> env;  // of tasks there
};

struct HostList {
  Where where;
  std::vector<HostEntry> hosts;
  bool complete = true;                      // false: some entry was a mistake
  std::optional<Located<std::string>> file;  // that lists them, instead: host_file.h
};

struct GpuRequest {
  enum class Kind { kAuto, kCount, kList };
  Kind kind = Kind::kAuto;
  int count = 0;  // kCount
  std::vector<std::string>
      list;  // kList: "0", or as `nvidia-smi -L` calls it: "GPU-6d2b...", "MIG-e3b2..."
};

// Either a base from which to count up, or ports one by one, or any.
struct PortRequest {
  bool any = false;  // from `base` on, or, where that is 0, from where the job's name says
  int base = 0;      // 0: `list` instead
  std::vector<int> list;
};

// An image, and where hosts have it from.
struct ImageSettings {
  enum class From {
    kRegistry,  // or they have it already
    kArchive,   // a file of this machine
    kLocal,     // a container engine of this machine
  };
  From from = From::kRegistry;
  std::string text;  // its name, or the archive's path; empty: no image
  std::string name;  // of one in the archive; empty: its only one
};

// The container of a task.
struct ContainerSettings {
  std::optional<Located<ImageSettings>> image;
  bool image_said = false;  // also when it was a mistake
  std::optional<Located<protocol::EngineKind>> engine;
  std::optional<Located<std::vector<protocol::Mount>>> mounts;
  std::optional<Located<int64_t>> shm_size_bytes;
  std::optional<Located<std::string>> entrypoint;  // empty: the image's own is left out
};

// What [task] and [roles.NAME] both may say.
struct TaskSettings {
  std::optional<std::vector<Located<std::string>>> command;
  bool command_said = false;  // also when it was a mistake
  std::optional<Located<std::string>> cwd;
  std::optional<Located<std::string>> venv;
  std::optional<Located<std::string>> conda;
  std::map<std::string, Located<std::string>> env;
  std::vector<std::string> env_from;  // names of variables of the user's shell
  std::optional<Located<GpuRequest>> gpus;
  std::optional<bool> merged_output;
  std::optional<int64_t> grace_ms;
  std::optional<int64_t> log_limit_bytes;
  ContainerSettings container;
};

struct RoleTable {
  std::string type;
  Where where;
  TaskSettings settings;
  std::optional<HostList> hosts;
  std::optional<Located<int>> count;
  std::optional<Located<int>> per_host;
  std::optional<Located<PortRequest>> ports;
  std::map<std::string, Located<PortRequest>> more_ports;  // by name
};

struct RestartTable {
  Where where;
  std::optional<protocol::RestartPolicy> policy;
  std::optional<int> limit;
  std::optional<int64_t> window_ms;
  std::optional<int64_t> backoff_ms;
};

struct SetUpTable {
  Where where;
  std::vector<Located<std::string>> command;
  std::vector<Located<std::string>> inputs;  // below the workdir
  int64_t timeout_ms = 1'800'000;
};

// Of [data].
struct DataEntry {
  Located<std::string> path;
  bool is_of_hosts = false;  // else of this machine, and sent
};

struct SshTable {
  std::optional<std::string> user;
  std::optional<int> port;
  std::optional<Located<std::string>> identity_file;
  std::optional<Located<std::string>> config;
  std::optional<std::string> host_keys;
  std::optional<std::string> transport;
  std::optional<std::string> remote_dir;
};

struct ClusterFile {
  std::string name;
  bool name_is_made = false;                 // of the command: nobody has said it
  std::optional<Located<std::string>> done;  // "all-workers", "chief", or a task type
  std::optional<Located<int64_t>> deadline_ms;
  std::optional<Located<std::string>> on_deadline;  // "fail", "succeed"
  std::optional<Located<int64_t>> warning_ms;       // before the deadline
  std::optional<Located<int>> warning_signal;
  std::optional<int64_t> finish_timeout_ms;
  std::optional<int64_t> silent_after_ms;
  Where cluster;  // of [cluster]
  std::optional<HostList> hosts;
  bool hosts_missing = true;  // false also when they were a mistake
  Located<std::string> layout{"uai", {}};
  bool layout_said = true;
  bool layout_known = true;  // false: a mistake, so that what depends on it is not checked
  std::optional<Located<std::string>> chief_name;
  std::map<std::string, Located<PortRequest>> ports;
  bool apart = false;  // no task is to run: its hosts need not reach each other
  int port_draw =
      0;  // of ports that nobody has said: another number, other ports; from the command, where some were taken
  bool any_ports = false;                        // of roles that `ports` does not name
  std::optional<std::vector<std::string>> gpus;  // of each host that lists none itself
  TaskSettings task;
  std::map<std::string, std::string>
      given_env;  // by --env, for all tasks, over all else; without placeholders
  // Of `export`: the host that a task has for itself, instead of those of the file. Then variables of `env_from` stay
  // open, as HostVariable, too. Empty: as the file says.
  std::function<std::string(const std::string& type, int index)> own_host;
  std::optional<Located<std::string>> program;  // which kind of TensorFlow program it is
  std::optional<Located<std::string>> workdir;
  std::optional<Located<std::string>> shared;
  std::optional<SetUpTable> set_up;
  std::map<std::string, DataEntry> data;        // by name
  std::vector<RoleTable> roles;                 // in the order of the file
  std::map<std::string, RestartTable> restart;  // by task type
  std::optional<protocol::OnHostLost> on_host_lost;
  std::optional<int64_t> host_lost_ms;
  std::optional<bool> exclusive;
  std::optional<Located<int64_t>> orphan_timeout_ms;
  SshTable ssh;
  std::optional<Located<int>> control_port;
  std::vector<std::string> python_packages;    // [check] python
  std::optional<Located<std::string>> logdir;  // [tensorboard] logdir
};

}  // namespace tfdist::cli
