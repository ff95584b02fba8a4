#include "runtime/placement/round_robin.h"

namespace tfdist::runtime {

Placement PlaceRoundRobin(size_t variable_count, size_t server_count) {
  Placement placement(server_count);
  for (size_t i = 0; i < variable_count; ++i) placement[i % server_count].push_back(i);
  return placement;
}

}  // namespace tfdist::runtime
