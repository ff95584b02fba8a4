// What a host is told to run, and what it needs for that. An agent has never heard of TF_CONFIG or of TOML.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "job/bytes.h"
#include "job/container.h"
#include "job/plan.h"

namespace tfdist::protocol {

// Stands for the address of whatever host is in `slot` when the attempt starts.
struct SlotAddress {
  int slot = 0;
  bool bracketed = false;  // an IPv6 literal in brackets, as before ":port"
  bool operator==(const SlotAddress&) const = default;
};

// Stands for one of HostDescription::common.
struct CommonText {
  std::string name;
  bool operator==(const CommonText&) const = default;
};

// Stands for what the variable holds in the environment that the host gives the account.
struct HostVariable {
  std::string name;
  bool operator==(const HostVariable&) const = default;
};

// Text in which addresses of slots are left open: a spare host can take a slot over without the
// user's machine. Literal parts are raw bytes without NUL.
struct Text {
  using Part = std::variant<std::string, SlotAddress, CommonText, HostVariable>;
  std::vector<Part> parts;

  Text() = default;
  Text(std::string literal) : parts{std::move(literal)} {}  // NOLINT: a literal is a Text
  Text(const char* literal) : Text(std::string(literal)) {}
  bool operator==(const Text&) const = default;
};
void to_json(Json& json, const Text& text);
void from_json(const Json& json, Text& text);

// Whether one of its literal parts holds `sought`.
bool HoldsLiteral(const Text& text, std::string_view sought);

// "10.0.0.2", or "[fd00::2]" where `bracketed` and the address holds a colon.
std::string AddressText(std::string_view address, bool bracketed);

// Texts that grow with the job and are the same for all of its tasks, by name: the cluster spec, lists of hosts.
// None holds a CommonText.
using CommonTexts = std::map<std::string, Text, std::less<>>;

// What the open parts of texts stand for.
struct Filling {
  std::span<const std::string> addresses;  // [i]: of slot i
  const CommonTexts& common;
  std::function<std::string(const std::string& name)> variable;
};

// Throws ProtocolError when a slot is out of range, or a common text is not there; and what `variable` throws.
std::string Fill(const Text& text, const Filling& filling);

// A file that the job brings, known by content; `link` is its path in the job's folder on the host.
struct FileDescription {
  std::string sha256;  // 64 hexadecimal digits, of the content as it lies on the host
  uint64_t size_bytes = 0;
  bool executable = false;
  // Relative: "runtime"; kWorkTimes; "work/data/train.npz" for a large file of the workdir; empty for an
  // archive of the workdir's other files.
  std::string link;
};

// One of `parts` equal parts of the GPUs that the host turns out to have.
struct GpuShare {
  int part = 0;  // from 0
  int parts = 1;
  bool operator==(const GpuShare&) const = default;
};

struct TaskDescription {
  std::string task;  // "worker:2": opaque to the agent, one file name component per half
  int slot = 0;      // whose host runs it; a spare host takes one slot over
  std::vector<Text> argv;
  Text conda;  // name or path of the conda environment that is activated for it; empty: none
  Text
      cwd;  // where it starts: below the work folder, or an absolute path of the host; empty: the work folder
  std::vector<std::string> unset;                 // names the host's environment may have
  std::vector<std::pair<std::string, Text>> env;  // set over what the host's environment has
  std::optional<GpuShare> gpu_share;              // CUDA_VISIBLE_DEVICES is worked out on the host
  std::vector<int> ports;                         // must be free on every address of the host
  bool merged_output = false;  // one pipe for stdout and stderr: exact order, no stream names
  uint64_t log_limit_bytes = 1 << 30;
  int64_t grace_ms = 10'000;  // between SIGTERM and SIGKILL
  int warning_signal = 0;     // what it gets before the job's deadline; 0: nothing
  std::optional<ContainerDescription> container;  // else it runs on the host itself
};
// In argv and env, "{jobdir}" cannot occur; paths that only the host knows are given as these
// markers, a NUL byte and a letter, which no user's text can hold.
inline constexpr std::string_view kRuntimePath{"\0R",
                                               2};  // absolute path of the file linked as "runtime"
inline constexpr std::string_view kWorkdirPath{"\0W", 2};  // absolute path of the work folder
inline constexpr std::string_view kKeepPath{"\0K", 2};     // absolute path of the job's kept folder
inline constexpr std::string_view kSetUpPath{"\0S",
                                             2};  // absolute path of what the set-up has made

inline constexpr std::string_view kDataPath{"\0D", 2};  // begins DataPath
// Absolute path of the job's data of that name, which holds no brace.
inline std::string DataPath(std::string_view name) {
  return std::string(kDataPath) + std::string(name) + "}";
}

// Whether a command, a start folder, a variable or a mount of `task` (a TaskDescription, or what becomes one) names `path`,
// one of these markers.
template <class Task>
bool NamesPath(const Task& task, std::string_view path) {
  const auto names = [path](const Text& text) { return HoldsLiteral(text, path); };
  const auto value_names = [&](const auto& variable) { return names(variable.second); };
  const auto mounts = [path](const Mount& mount) { return mount.source.starts_with(path); };
  return names(task.cwd) || std::ranges::any_of(task.argv, names) ||
         std::ranges::any_of(task.env, value_names) ||
         (task.container && std::ranges::any_of(task.container->mounts, mounts));
}
template <class Task>
bool NamesKeptFolder(const Task& task) {
  return NamesPath(task, kKeepPath);
}

// The link of a file that says when what is in the work folder was written, and which mode it has, as data beside its
// content: "SECONDS NANOSECONDS MODE PATH" and a NUL for each entry; "." is the folder itself.
inline constexpr std::string_view kWorkTimes = "work-times";

// A command that runs on a host before the job is committed, once for its content, in a folder that stays.
struct SetUpDescription {
  std::string key;  // of command and inputs: 16 hexadecimal digits
  std::vector<Text> argv;
  std::vector<std::pair<std::string, Text>> env;  // as TaskDescription has it
  std::vector<std::string> inputs;                // files below the work folder
  int64_t timeout_ms = 1'800'000;
  bool again = false;  // though an earlier job has run it
  std::string made;  // the agent's: which of the key's folders the tasks get; empty: not known yet
};

// Data that tasks read and that outlives the job: a folder or a file.
struct DataDescription {
  std::string name;
  Text path;         // where the host has it already; empty: it is sent
  std::string key;   // of what is sent, by its content: 64 hexadecimal digits
  std::string file;  // its name, where it is one file: raw bytes
};

// Who starts a job whose tasks name {keep}: what is kept there may be a stranger's of the same account.
struct KeptClaim {
  std::string name;   // of the job; a rehearsal runs under another one
  std::string home;   // an id of where the user keeps records of jobs: plain (layout.h)
  std::string who;    // "alice@laptop", for people
  bool take = false;  // the user says: what others have kept is to be used
};
inline constexpr size_t kMostHomeBytes = 64;
inline constexpr size_t kMostWhoBytes = 128;

// Everything one host needs before the job is committed.
struct HostDescription {
  std::vector<TaskDescription> tasks;
  CommonTexts common;  // those that the tasks' texts name
  std::vector<FileDescription> files;
  std::vector<FileDescription>
      workdir;  // tar.gz, unpacked into the work folder in this order before files go there
  std::optional<SetUpDescription> set_up;
  std::vector<DataDescription> data;  // that the tasks' texts name
  Bytes secret;                       // of the job: for the runtime's keys; never logged
  std::vector<SlotPlan> slots;        // of the job: whose addresses tasks may be given
  std::string shared;                 // absolute path where logs are copied to; empty: nowhere
  bool needs_ports = false;  // others connect to the tasks' ports, or the user has chosen them
  std::string replaces;  // id of a job that ends before this one begins: its ports count as free
  int control_port =
      0;  // of slot 0, where `replaces` is set: it must be free by then; 0: any is taken
  std::optional<KeptClaim> kept;  // where a task names {keep}
  // By the plan: its tasks start in the job's `run` (layout.h), which another slot may have all the same.
  bool first_of_machine = false;
};

void to_json(Json& json, const FileDescription& value);
void from_json(const Json& json, FileDescription& value);
void to_json(Json& json, const GpuShare& value);
void from_json(const Json& json, GpuShare& value);
void to_json(Json& json, const TaskDescription& value);
void from_json(const Json& json, TaskDescription& value);
void to_json(Json& json, const SetUpDescription& value);
void from_json(const Json& json, SetUpDescription& value);
void to_json(Json& json, const DataDescription& value);
void from_json(const Json& json, DataDescription& value);
void to_json(Json& json, const KeptClaim& value);
void from_json(const Json& json, KeptClaim& value);
void to_json(Json& json, const HostDescription& value);
void from_json(const Json& json, HostDescription& value);

}  // namespace tfdist::protocol
