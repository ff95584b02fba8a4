// TF_CONFIG, both ways: the CLI writes it with the code that the runtime reads it with.
// Facts: tensorflow/python/training/server_lib.py (ClusterSpec), tensorflow_estimator
// run_config.py.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tfdist {

// One task of the cluster: task type and index, written "worker:2".
struct TaskId {
  std::string type;
  int index = 0;

  auto operator<=>(const TaskId&) const = default;
};

std::string ToString(const TaskId& task);
// "worker:2"; nullopt when it is not of that form.
std::optional<TaskId> ParseTaskId(std::string_view text);

// A letter, then letters, digits, underscores: core/util/device_name_utils.cc.
bool IsTaskTypeName(std::string_view name);

// Address grammar of gRPC's host-port splitter (grpc/src/core: split_host_port): an IPv6 literal stands in
// brackets before a port.
struct HostPort {
  std::string host;  // without brackets
  int port = 0;      // 1..65535

  auto operator<=>(const HostPort&) const = default;
};
std::string ToString(const HostPort& address);
// nullopt unless it is host:port with a port of 1..65535.
std::optional<HostPort> ParseHostPort(std::string_view text);

// Task type -> "host:port" of each task; position in the list = task index. No list is empty.
struct ClusterSpec {
  std::map<std::string, std::vector<std::string>> tasks;

  bool operator==(const ClusterSpec&) const = default;
};

struct TfConfig {
  ClusterSpec cluster;
  TaskId task;
  std::string environment;  // "cloud", or empty: not written

  bool operator==(const TfConfig&) const = default;

  // Compact JSON; keys in the order cluster, task, environment, task types sorted, as TFJob has it.
  // Addresses must be UTF-8.
  [[nodiscard]] std::string ToJson() const;
  // Takes lists and {"index": address} objects alike (server_lib.py). Throws Error(kConfig) that
  // names the field: not JSON, wrong types, a gap in the indices, an address that is not host:port,
  // a task that is not in the cluster (an evaluator may be absent from it).
  static TfConfig FromJson(std::string_view text);
};

// Which task is chief: "chief" or "master" of the cluster; with neither, worker:0 (kubeflow
// tensorflow_types.go). nullopt in a cluster without any of them.
std::optional<TaskId> ChiefOf(const ClusterSpec& cluster);

}  // namespace tfdist
