#include "agent/coordinator/relay/event_batch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "wire/frame.h"

namespace tfdist::agent {
namespace {

using protocol::Event;

std::vector<Event> MakeEvents(size_t count, size_t text_bytes) {
  std::vector<Event> events;
  for (size_t i = 1; i <= count; ++i) {
    const protocol::Json fields = {{"last_lines", protocol::Bytes{std::string(text_bytes, 'x')}}};
    events.push_back({i, 0, protocol::event::Other{"news", fields}});
  }
  return events;
}

// Reads all of them as a reader of the stream does; the largest message.
size_t ReadAll(const std::vector<Event>& events) {
  size_t largest = 0;
  uint64_t next = 1;
  while (next <= events.size()) {
    const EventBatch batch = MakeEventBatch(std::span(events).subspan(next - 1));
    for (const auto& event : batch.body.at("events").get<std::vector<Event>>()) {
      EXPECT_EQ(event.number, next++);
    }
    largest = std::max(largest, protocol::Frame({"event", 1, batch.body}).size());
    if (batch.count == 0) break;
  }
  return largest;
}

TEST(EventBatchTest, SmallEventsGoManyAtATime) {
  EXPECT_EQ(MakeEventBatch(MakeEvents(100, 10)).count, kMaxBatchEvents);
}

TEST(EventBatchTest, LongEventsNeverMakeAMessageTooLong) {
  EXPECT_LE(ReadAll(MakeEvents(64, 512 * 1024)), 2 * kMaxBatchBytes);
}

TEST(EventBatchTest, AnEventThatIsLongerThanABatchGoesAlone) {
  EXPECT_EQ(MakeEventBatch(MakeEvents(3, 3 * kMaxBatchBytes)).count, 1U);
}

}  // namespace
}  // namespace tfdist::agent
