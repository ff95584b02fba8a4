// Which server holds which variable: round robin in order of creation (TensorFlow's
// replica_device_setter; python/training/device_setter.py).
#pragma once

#include <cstddef>
#include <vector>

namespace tfdist::runtime {

// For each server, the variables it holds, as positions in the order of creation.
using Placement = std::vector<std::vector<size_t>>;

Placement PlaceRoundRobin(size_t variable_count, size_t server_count);

}  // namespace tfdist::runtime
