// A task as a container that another engine starts: what it runs, with nothing left open that the plan knows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/plan/plan.h"
#include "cli/render/notes.h"

namespace tfdist::cli {

struct PodVariable {
  std::string name;
  std::string value;      // of_shell: the name that it has there
  bool of_shell = false;  // of the user, and not to be written down
  bool operator==(const PodVariable&) const = default;
};

enum class VolumeKind {
  kHost,    // a path of the machine
  kWork,    // the work folder, of this machine
  kKeep,    // what the next job finds
  kShared,  // one folder that all machines see
  kData,    // of this machine
};

struct PodVolume {
  VolumeKind kind = VolumeKind::kHost;
  std::string source;  // path; kKeep: empty
  std::string target;  // path in the container
  bool read_only = false;
  bool operator==(const PodVolume&) const = default;
};

struct Pod {
  TaskId id;
  std::string image;
  std::optional<std::string> entrypoint;  // as ContainerDescription's
  std::vector<std::string> argv;
  std::string folder;  // where it starts; empty: as the image says
  std::vector<PodVariable> env;
  std::vector<std::pair<std::string, int>> ports;  // its own first, without a name; then more_ports
  std::vector<PodVolume> volumes;
  int64_t shm_size_bytes = 0;
  std::optional<std::vector<std::string>> gpus;  // of its machine; nullopt: not known
  int64_t grace_ms = 0;
  protocol::RestartRule restart;
  bool serves = false;  // runs until the others have ended
  bool decides = false;
};

// The pods of each role, by their index. `plan` has the hosts of the file; `apart` is the same plan with PlanChanges::own_host, and
// has the names by which tasks reach each other there. Throws UsageError where a task cannot run in a container of another engine.
std::vector<std::vector<Pod>> PodsOf(const Plan& plan, const Plan& apart, Notes& notes);

// Stands for the index of a task in a text that is the same for its whole role otherwise.
inline constexpr std::string_view kIndexMark{"\0I", 2};
// A pod that stands for all of a role: arguments and values of variables have kIndexMark where each has its own index. nullopt:
// they differ otherwise, too.
std::optional<Pod> Folded(const std::vector<Pod>& role);
// Whether kIndexMark stands in it.
bool HasIndex(const Pod& pod);

}  // namespace tfdist::cli
