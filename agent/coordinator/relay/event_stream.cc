#include "agent/coordinator/relay/event_stream.h"

#include <algorithm>
#include <string>
#include <utility>

#include "agent/coordinator/relay/event_batch.h"

namespace tfdist::agent {

EventStream::EventStream(const EventLog& log, const std::shared_ptr<Session>& session, uint64_t id,
                         uint64_t from, bool follow)
    : log_(log), session_(*session), id_(id), next_(std::max<uint64_t>(from, 1)), follow_(follow) {}

void EventStream::Pump() {
  while (!ended_ && next_ <= log_.written() && session_.HasRoom()) SendBatch();
  if (ended_ || next_ <= log_.written() || !NothingFollows()) return;
  ended_ = true;
  protocol::Json body = {{"offset", next_}, {"now_ns", log_.clock().NowNs()}};
  if (const std::string trouble = log_.trouble(); !trouble.empty()) body["trouble"] = trouble;
  session_.Send({std::string(protocol::type::kEnd), id_, std::move(body)});
}

void EventStream::SendBatch() {
  EventBatch batch = MakeEventBatch(log_.WrittenFrom(next_));
  session_.Send({std::string(protocol::type::kEvent), id_, std::move(batch.body)});
  next_ = batch.next;
}

bool EventStream::NothingFollows() const {
  // The last events may have happened and not be on disk yet.
  const bool all_sent = next_ > log_.number();
  return !follow_ || (all_sent && log_.state().phase == protocol::JobPhase::kEnded);
}

}  // namespace tfdist::agent
