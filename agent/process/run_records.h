// What the files of a run's folder hold (run_folder.h), as bytes: records with a checksum
// (record.h). What is torn, damaged or of another version is decoded as nullopt.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/census/process_table.h"
#include "wire/protocol.h"

namespace tfdist::agent {

struct RunSpec {
  std::string task;               // "worker:2", for messages
  std::vector<std::string> argv;  // [0] without a slash is looked for in the PATH of `env`
  std::vector<std::string> env;   // "NAME=value": all of it, cookie included; nothing is added
  std::string cwd;                // absolute
  bool merged_output = false;
  uint64_t log_limit_bytes = 1 << 30;
  int64_t grace_ms = 10'000;
  int attempt = 1;
  int run = 1;
  int warning_signal = 0;  // what the task gets before the job's deadline; 0: nothing
  // Where `argv` runs a container: what it is called, and its engine's client. Else both are empty; of an engine that keeps no
  // containers only the first is.
  std::string container = {};
  std::string engine = {};

  bool operator==(const RunSpec&) const = default;
};

std::string EncodeRunSpec(const RunSpec& spec);
std::optional<RunSpec> DecodeRunSpec(std::string record);

struct RunPids {
  ProcessId holder;
  ProcessId task;
  std::string boot_id;
  std::string cgroups = {};  // of the task when it began: CgroupsOf
  int oom_score = 0;         // OomScoreOf

  bool operator==(const RunPids&) const = default;
};

std::string EncodeRunPids(const RunPids& pids);
std::optional<RunPids> DecodeRunPids(std::string record);

// Long enough for an exit record: a longer `error` is cut.
inline constexpr size_t kExitRecordBytes = 4096;
std::string EncodeRunExit(const protocol::TaskExit& exit);
std::optional<protocol::TaskExit> DecodeRunExit(std::string record);

}  // namespace tfdist::agent
