#include "cli/plan/tf_config_text.h"

#include <cassert>
#include <string_view>

#include "cli/plan/cluster_spec.h"

namespace tfdist::cli {
namespace {

constexpr std::string_view kBeforeCluster = R"({"cluster":)";
constexpr std::string_view kNoCluster = "{}";

}  // namespace

protocol::Text TfConfigText(const Plan& plan, const TaskOnHost& task) {
  const bool mirrored = plan.layout == "mirrored";
  const std::string json = TfConfig{{}, task.id, mirrored ? "" : "cloud"}.ToJson();
  // The strategy looks its own task type up in a cluster that is not empty, and an evaluator is
  // not in it (multi_worker_util.py, worker_count): it gets no cluster, as in TensorFlow's
  // tutorial.
  if (mirrored && task.id.type == "evaluator") return json;
  assert(json.substr(kBeforeCluster.size()).starts_with(kNoCluster));
  protocol::Text text(std::string{kBeforeCluster});
  text.parts.emplace_back(protocol::CommonText{std::string(kClusterText)});
  text.parts.emplace_back(json.substr(kBeforeCluster.size() + kNoCluster.size()));
  return text;
}

}  // namespace tfdist::cli
