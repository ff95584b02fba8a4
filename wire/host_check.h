// What `tfdist check` asks of a host. The role
// `start` answers it: it makes no job, and leaves nothing on the host.
//
//   survey Survey -> HostFacts   in place of `create`
//   hold   {}     -> Held        where hosts are to dial each other: the ports of the plan are held from now on
//   reach  Reach  -> Reached     once every host holds its ports
//   ping   {}     -> {time_ns}   the wall clock of the host
//   abort  {}     -> {}          the ports are free again, and nothing is left
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "wire/kept_files.h"
#include "wire/protocol.h"
#include "wire/resolved_names.h"

namespace tfdist::protocol {

namespace type {
inline constexpr std::string_view kSurvey = "survey";
inline constexpr std::string_view kHold = "hold";
inline constexpr std::string_view kReach = "reach";
}  // namespace type

struct Survey {
  int slot = 0;
  std::string name;  // of the job
  Bytes key;         // of this check, 32 bytes: agents prove with it that they belong to the check
  std::string listen;                  // a numeric address; empty: every address of the host
  std::vector<TaskDescription> tasks;  // that would run here: their ports and commands
  std::string coordinator;             // slot 0: the address to listen on for agents; else empty
  int coordinator_port = 0;            // 0: any free one
  bool needs_ports = false;            // as HostDescription has it
  std::vector<std::string> names;      // to resolve
  std::vector<std::string> packages;   // of Python, whose versions are asked for
  std::string set_up_key;              // of the set-up that the tasks use; empty: there is none
  std::vector<DataDescription> data;   // that the tasks name
  std::optional<KeptClaim> kept;       // where they name {keep}
  bool brought = false;                // the agent came with this check: it is removed afterwards
  int64_t limit_ms = 4'000;            // for programs that are asked: resolver, nvidia-smi, python
};

// What is wrong, and what to do about it.
struct Trouble {
  std::string why;
  std::string remedy;
};

// How long `hold` waits for another check of the account to let go of ports.
inline constexpr std::chrono::milliseconds kOtherCheckLimit{2'000};

// A port of the plan on its host.
struct PortFact {
  int port = 0;                    // 0: the coordinator's, any free one
  std::string task;                // "worker:0"; "coordinator"
  std::optional<Trouble> trouble;  // none: a server can have it, perhaps after a minute (TIME_WAIT)
  bool held = false;               // by this host, for others to dial
  int held_by = -1;                // the slot whose check has the port: this is the same machine
};

struct Held {
  std::vector<PortFact> ports;  // all of them
};

struct PythonFact {
  std::string program;
  std::string version;                                        // empty: see `why`
  std::vector<std::pair<std::string, std::string>> packages;  // versions; empty: not installed
  std::string why;
};

// Data of a path of the host.
struct DataFact {
  std::string name;
  KeptFiles found;  // files, bytes, and whether that was all
};

// An image of tasks, and the engine that would run it.
struct ImageFact {
  std::string image;
  std::string engine;            // "docker 20.10.24"
  bool is_there = false;         // else `up` has it pulled
  uint64_t disk_free_bytes = 0;  // where the engine keeps images; 0: not known
  std::string gpu_trouble;  // why tasks that are to have GPUs may get none; empty: nothing known
  std::string gpu_remedy;
};

// An address of the host in a network that other hosts may be in, too.
struct NetworkFact {
  std::string interface;    // "eth0"
  std::string address;      // "10.0.0.1"
  int prefix = 0;           // bits of the network: 24
  int64_t speed_mbit = -1;  // of the link, as its driver says; -1: not known
};

struct HostFacts {
  std::string machine;  // equal texts: one machine, or one network namespace of it
  uint64_t disk_free_bytes = 0;
  uint64_t files_free = 0;
  uint64_t kept_bytes = 0;  // of files that earlier jobs have brought: this job's may be among them
  std::vector<PortFact> ports;
  ResolvedNames names;
  std::optional<KeptFound> kept;  // as Survey::kept claims it
  std::vector<DataFact> data;     // each that is a path of the host, and there
  std::vector<Trouble> commands;  // of tasks, that cannot be executed
  std::vector<Trouble> files;     // data that tasks lack; why a job's folder could not be made
  std::vector<Trouble> settings;  // of this host for every program, that tasks would inherit
  std::vector<ImageFact> images;  // of tasks, with engines that answer
  bool set_up_made = false;       // an earlier job has run that set-up here
  std::vector<std::string> gpus;  // "NVIDIA H100 80GB HBM3", by number
  std::string gpu_trouble;        // why the GPUs are not known
  std::optional<Trouble> gpus_refused;  // why `up` would not start the tasks with these GPUs
  std::optional<Trouble> taken;         // why it would not under that name: another job has it
  std::optional<Trouble> logout;        // why processes would be ended when their user logs out
  std::optional<Trouble> memory;        // why all of them would be, where one runs out of memory
  std::optional<Trouble> hidden;        // why processes of the account may not be seen
  std::vector<Trouble> limits;          // of the account, that may end tasks long after their start
  std::optional<PythonFact> python;
  std::vector<NetworkFact> networks;
};

// A port of another host, or of a task beside.
struct Target {
  int slot = 0;
  std::string address;  // as TF_CONFIG has it
  int port = 0;
};

struct Reach {
  std::vector<Target> targets;
  bool brought = false;  // as Survey::brought, now that all slots of this machine are known
  int64_t limit_ms = 3'500;
};

enum class ReachFailure {
  kUnresolved,  // the address is a name, and means nothing here
  kSilent,      // no answer to the connection's first packet: dropped on the way
  kRefused,     // nobody listens there, or a firewall rejects it
  kNoRoute,
  kStranger,   // the connection came about, and the other end is none of this check
  kOtherHost,  // the other end is another host of this check
};
std::string_view ReachFailureName(ReachFailure failure);

struct Unreached {
  size_t target = 0;  // index into Reach::targets
  ReachFailure failure = ReachFailure::kSilent;
  std::string address;   // numeric, that was tried last
  int answered_by = -1;  // kOtherHost: its slot
  std::string why;       // in words of the system
};

struct Reached {
  std::vector<Unreached> failures;  // the other targets were reached
};

#define TFDIST_BODY(T)                      \
  void to_json(Json& json, const T& value); \
  void from_json(const Json& json, T& value)
TFDIST_BODY(Survey);
TFDIST_BODY(Trouble);
TFDIST_BODY(PortFact);
TFDIST_BODY(Held);
TFDIST_BODY(PythonFact);
TFDIST_BODY(DataFact);
TFDIST_BODY(ImageFact);
TFDIST_BODY(NetworkFact);
TFDIST_BODY(HostFacts);
TFDIST_BODY(Target);
TFDIST_BODY(Reach);
TFDIST_BODY(Unreached);
TFDIST_BODY(Reached);
#undef TFDIST_BODY

}  // namespace tfdist::protocol
