#include "cli/plan/tf_config_text.h"

#include <fmt/format.h>

#include <charconv>

#include "cli/plan/cluster_spec.h"

namespace tfdist::cli {
namespace {

// Stands for the address of a slot while the JSON is written. Nothing else in it holds this
// character: task types cannot, and hosts are not there yet.
constexpr char kMark = '@';

ClusterSpec ClusterWithMarks(const Plan& plan) {
  return MakeClusterSpec(plan, [](const TaskOnHost& task) {
    return fmt::format("{}{}{}:{}", kMark, task.slot, kMark, task.port);
  });
}

protocol::Text WithSlots(std::string_view json) {
  protocol::Text text;
  while (true) {
    const size_t begin = json.find(kMark);
    text.parts.emplace_back(std::string(json.substr(0, begin)));
    if (begin == json.npos) return text;
    const size_t end = json.find(kMark, begin + 1);
    int slot = 0;
    std::from_chars(json.data() + begin + 1, json.data() + end, slot);
    text.parts.emplace_back(protocol::SlotAddress{slot, true});
    json.remove_prefix(end + 1);
  }
}

}  // namespace

protocol::Text TfConfigText(const Plan& plan, const TaskOnHost& task) {
  TfConfig config{ClusterWithMarks(plan), task.id, "cloud"};
  if (plan.layout == "mirrored") {
    config.environment.clear();
    // The strategy looks its own task type up in a cluster that is not empty, and an evaluator is
    // not in it (multi_worker_util.py, worker_count): it gets no cluster, as in TensorFlow's
    // tutorial.
    if (task.id.type == "evaluator") config.cluster = {};
  }
  return WithSlots(config.ToJson());
}

}  // namespace tfdist::cli
