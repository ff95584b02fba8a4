#include "agent/coordinator/relay/event_batch.h"

#include <algorithm>
#include <utility>

namespace tfdist::agent {

using protocol::Json;

EventBatch MakeEventBatch(std::span<const protocol::Event> events) {
  Json batch = Json::array();
  size_t size_bytes = 0;
  for (const protocol::Event& event : events.first(std::min(events.size(), kMaxBatchEvents))) {
    Json json = event;
    size_bytes += protocol::JsonLine(json).size();
    if (!batch.empty() && size_bytes > kMaxBatchBytes) break;
    batch.push_back(std::move(json));
  }
  const size_t count = batch.size();
  return {{{"events", std::move(batch)}}, count, events[count - 1].number + 1};
}

}  // namespace tfdist::agent
