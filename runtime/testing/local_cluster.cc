#include "runtime/testing/local_cluster.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <stdexcept>
#include <vector>

#include "base/unique_fd.h"

namespace tfdist::runtime::testing {

namespace {

// A port that nobody listens on, held until the object goes: so no two of a cluster are the same.
class FreePort {
 public:
  FreePort() : probe_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    if (bind(probe_.get(), generic, size) != 0 || getsockname(probe_.get(), generic, &size) != 0) {
      throw std::runtime_error("no free port");
    }
    number_ = ntohs(address.sin_port);
  }
  [[nodiscard]] int number() const { return number_; }

 private:
  UniqueFd probe_;
  int number_ = 0;
};

}  // namespace

ClusterSpec LocalCluster(int servers, int trainers) {
  ClusterSpec cluster;
  std::vector<FreePort> ports;
  const auto add = [&](const std::string& type) {
    ports.emplace_back();
    cluster.tasks[type].push_back("127.0.0.1:" + std::to_string(ports.back().number()));
  };
  for (int i = 0; i < servers; ++i) add("ps");
  add("master");
  for (int i = 1; i < trainers; ++i) add("worker");
  return cluster;
}

TfConfig ConfigOf(const ClusterSpec& cluster, const std::string& task) {
  return {cluster, ParseTaskId(task).value(), ""};
}

JobSecret TestSecret() { return JobSecret::FromHex(std::string(64, '7')); }
JobSecret OtherSecret() { return JobSecret::FromHex(std::string(64, '8')); }

}  // namespace tfdist::runtime::testing
