#include "runtime/testing/local_cluster.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "runtime/testing/loopback.h"

namespace tfdist::runtime::testing {
namespace {

// A server may listen on the same port beside it: SO_REUSEADDR (socket(7)), which libzmq sets too.
UniqueFd HoldFreePort(int& number) {
  UniqueFd held(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (setsockopt(held.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      bind(held.get(), generic, size) != 0 || getsockname(held.get(), generic, &size) != 0) {
    throw std::runtime_error("no free port");
  }
  number = ntohs(address.sin_port);
  return held;
}

}  // namespace

LocalCluster::LocalCluster(int servers, int trainers) {
  for (int i = 0; i < servers; ++i) Add("ps");
  Add("master");
  for (int i = 1; i < trainers; ++i) Add("worker");
}

void LocalCluster::Add(const std::string& type) {
  int port = 0;
  held_.push_back(HoldFreePort(port));
  tasks[type].push_back("127.0.0.1:" + std::to_string(port));
}

TfConfig ConfigOf(const ClusterSpec& cluster, const std::string& task) {
  return {cluster, ParseTaskId(task).value(), ""};
}

size_t ServerThreads() {
  const char* threads = std::getenv("TFDIST_TEST_SERVER_THREADS");
  return threads == nullptr ? 1 : std::stoul(threads);
}

JobSecret TestSecret() { return JobSecret::FromHex(std::string(64, '7')); }
JobSecret OtherSecret() { return JobSecret::FromHex(std::string(64, '8')); }

}  // namespace tfdist::runtime::testing
