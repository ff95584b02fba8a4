// A job that the command line describes, as the cluster file that would say the same.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/cluster_file/cluster_file.h"

namespace tfdist::cli {

// `tfdist up -H gpu1,gpu2:4 -- python3 train.py`
struct CommandLineJob {
  std::vector<std::string> hosts;  // each a list with commas: "gpu[1-4],user@gpu7:2"; ":N" is slots
  std::string layout = "mirrored";
  std::string name;  // empty: made from the command
  std::vector<std::string> command;
  std::optional<std::string> workdir;  // absent: nothing is sent
  std::string ssh_config;              // as ssh -F; may be empty
  std::string transport;               // of [ssh]; may be empty
  std::vector<std::string> env;        // "NAME=value", or "NAME" of the user's shell
  std::vector<std::string> settings;   // of --set: what has no option
  int port_draw = 0;                   // as ClusterFile has it
  bool apart = false;                  // the same
};

// `env` as that of CommandLineJob. Mistakes go to `problems`.
std::map<std::string, std::string> ReadGivenEnv(const std::vector<std::string>& env,
                                                Problems& problems);

// Mistakes go to `problems`, under the options' names.
ClusterFile ClusterFileOf(const CommandLineJob& job, Problems& problems);

// "train" of python3 train.py --steps 10, or of python3 -m pkg.train; "job" where nothing serves.
std::string JobNameOf(const std::vector<std::string>& command);

}  // namespace tfdist::cli
