#include <fmt/format.h>
#include <sys/eventfd.h>

#include <deque>
#include <stdexcept>
#include <vector>

#include "base/unique_fd.h"
#include "runtime/bench/exchanges.h"
#include "runtime/bench/slow_link.h"
#include "runtime/client.h"
#include "runtime/server.h"
#include "runtime/testing/local_cluster.h"

namespace tfdist::runtime::bench {
namespace {

using testing::ConfigOf;
using testing::TestSecret;

int PortOfServer(const ClusterSpec& cluster) {
  return ParseHostPort(cluster.tasks.at("ps")[0])->port;
}

class OwnExchange : public Exchange {
 public:
  OwnExchange(const Case& the_case, const ClientOptions& options,
              const std::vector<TensorSpec>& variables, int variables_per_call,
              const OptimizerSpec& optimizer)
      : operation_(the_case.operation),
        client_(options, variables),
        gradients_(Zeros(variables)),
        values_(Zeros(variables)) {
    for (Tensor& gradient : gradients_) std::fill(gradient.begin(), gradient.end(), 1e-3F);
    const size_t group = static_cast<size_t>(variables_per_call);
    for (size_t first = 0; first < variables.size(); first += group) {
      Gradients& pushed = pushed_.emplace_back();
      Targets& pulled = pulled_.emplace_back();
      for (size_t i = first; i < first + group; ++i) {
        pushed.push_back({i, gradients_[i]});
        pulled.push_back({i, values_[i]});
      }
    }
    if (options.config.task.type == "master") client_.Create(values_, optimizer);
    client_.Pull(TargetsOf(values_));
  }

  void Begin(size_t call) override {
    switch (operation_) {
      case Operation::kPush:
        begun_.push_back(client_.StartPush(pushed_[call]));
        break;
      case Operation::kPull:
        begun_.push_back(client_.StartPull(pulled_[call]));
        break;
      case Operation::kPushPull:
        begun_.push_back(client_.StartPushPull(pushed_[call], pulled_[call]));
        break;
      case Operation::kBothAtOnce:
        throw std::logic_error("a client's call waits for what it pushes");
    }
  }

  void EndOldest() override {
    begun_.front().Wait();
    begun_.pop_front();
  }

 private:
  Operation operation_;
  Client client_;
  Tensors gradients_;
  Tensors values_;
  std::vector<Gradients> pushed_;  // by call
  std::vector<Targets> pulled_;
  std::deque<Future> begun_;
};

}  // namespace

struct Own::Job {
  Job(int servers, int workers) : cluster(servers, workers) {}
  testing::LocalCluster cluster;
  std::vector<TensorSpec> variables;
  int variables_per_call = 1;
};

Own::Own(const Case& the_case, int variables_per_call)
    : job_(std::make_shared<Job>(the_case.servers, the_case.workers)) {
  job_->variables_per_call = variables_per_call;
  const auto floats = static_cast<uint32_t>(the_case.size_bytes / sizeof(float) /
                                            static_cast<size_t>(variables_per_call));
  for (int i = 0; i < the_case.buffers * variables_per_call; ++i) {
    job_->variables.push_back({"v" + std::to_string(i), {floats}});
  }
}

void Own::Serve(const Case& the_case, Shared&, int server) const {
  ServerOptions options;
  options.config = ConfigOf(job_->cluster, "ps:" + std::to_string(server));
  if (the_case.curve) options.secret = TestSecret();
  options.shared_memory = the_case.shared_memory;
  options.threads = the_case.server_threads;
  const UniqueFd never(eventfd(0, EFD_CLOEXEC));
  Server served(options);
  if (the_case.link_bytes_per_second > 0) {
    StartSlowLink(PortOfServer(job_->cluster), the_case.link_bytes_per_second);
  }
  served.Run(never.get());
}

std::unique_ptr<Exchange> Own::Make(const Case& the_case, Shared&, int worker) const {
  ClientOptions options;
  options.config =
      ConfigOf(job_->cluster, worker == 0 ? "master:0" : "worker:" + std::to_string(worker - 1));
  if (the_case.link_bytes_per_second > 0) {
    options.config.cluster.tasks["ps"] = {
        fmt::format("{}:{}", kLinkHost, PortOfServer(job_->cluster))};
  }
  if (the_case.curve) options.secret = TestSecret();
  options.shared_memory = the_case.shared_memory;
  options.values = the_case.values;
  options.server_threads = the_case.server_threads;
  if (the_case.bytes_under_way > 0) options.bytes_under_way = the_case.bytes_under_way;
  return std::make_unique<OwnExchange>(the_case, options, job_->variables, job_->variables_per_call,
                                       ParseOptimizer(the_case.optimizer));
}

}  // namespace tfdist::runtime::bench
