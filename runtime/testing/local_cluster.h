// A job on 127.0.0.1 with ports of its own, for tests.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "runtime/tf_config.h"
#include "runtime/transport/keys.h"

namespace tfdist::runtime::testing {

// `servers` ps, one master, and workers so that there are `trainers` in all. Its ports are its own
// as long as it lives, whether a server runs or not: nobody is given one for bind(2) to port 0 or
// as the near end of a connect(2).
class LocalCluster : public ClusterSpec {
 public:
  LocalCluster(int servers, int trainers);

 private:
  void Add(const std::string& type);

  std::vector<UniqueFd> held_;  // a socket for each port, bound and not listening
};

// What `task` ("worker:0") of that job is given.
TfConfig ConfigOf(const ClusterSpec& cluster, const std::string& task);

// Of every server of the tests, and expected by their clients: ctest runs some tests once more with
// several.
size_t ServerThreads();

// The same secret each time, and one that belongs to another job.
JobSecret TestSecret();
JobSecret OtherSecret();

}  // namespace tfdist::runtime::testing
