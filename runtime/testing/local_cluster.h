// A job on 127.0.0.1 with ports of its own, for tests.
#pragma once

#include <string>

#include "runtime/tf_config.h"
#include "runtime/transport/keys.h"

namespace tfdist::runtime::testing {

// `servers` ps, one master, and workers so that there are `trainers` in all.
ClusterSpec LocalCluster(int servers, int trainers);

// What `task` ("worker:0") of that job is given.
TfConfig ConfigOf(const ClusterSpec& cluster, const std::string& task);

// The same secret each time, and one that belongs to another job.
JobSecret TestSecret();
JobSecret OtherSecret();

}  // namespace tfdist::runtime::testing
