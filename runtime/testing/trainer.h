// A client of a job of LocalCluster, with room for the values of its variables, for tests.
#pragma once

#include <cstdlib>
#include <string>
#include <vector>

#include "runtime/client.h"
#include "runtime/testing/local_cluster.h"
#include "runtime/testing/tcp_proxy.h"

namespace tfdist::runtime::testing {

inline ClientOptions OptionsFor(const ClusterSpec& cluster, const std::string& task) {
  ClientOptions options;
  options.config = ConfigOf(cluster, task);
  options.secret = TestSecret();
  options.server_threads = ServerThreads();
  // Tests go through shared memory unless the environment says otherwise: ctest runs them twice.
  options.shared_memory = std::getenv("TFDIST_TEST_TCP") == nullptr;
  return options;
}

// For tests of what breaks in the middle of a message: shared memory breaks only as a whole.
inline ClientOptions OverTcp(ClientOptions options) {
  options.shared_memory = false;
  return options;
}

// The same cluster, for a client that reaches ps:0 through the proxy.
inline ClusterSpec Through(const TcpProxy& proxy, ClusterSpec cluster) {
  cluster.tasks["ps"][0] = "127.0.0.1:" + std::to_string(proxy.port());
  return cluster;
}

// The same, for a proxy AtOtherHost: the client takes the server for one on another host.
inline ClusterSpec ThroughOtherHost(const TcpProxy& proxy, ClusterSpec cluster) {
  cluster.tasks["ps"][0] = TcpProxy::kOtherHost + (":" + std::to_string(proxy.port()));
  return cluster;
}

struct Trainer {
  Trainer(const ClientOptions& options, const std::vector<TensorSpec>& variables)
      : client(options, variables), values(Zeros(variables)) {}
  Trainer(const ClusterSpec& cluster, const std::string& task,
          const std::vector<TensorSpec>& variables)
      : Trainer(OptionsFor(cluster, task), variables) {}

  uint64_t Pull() { return client.Pull(TargetsOf(values)); }
  uint64_t PushPull(const Tensors& gradients) { return Start(gradients).Wait(); }
  Future Start(const Tensors& gradients) {
    return client.StartPushPull(GradientsOf(gradients), TargetsOf(values));
  }

  Client client;
  Tensors values;
};

}  // namespace tfdist::runtime::testing
