#include "runtime/client/outbox.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <utility>

#include "base/error.h"
#include "runtime/client/cut_ends.h"
#include "runtime/client/rows.h"

namespace tfdist::runtime {
namespace {

// libzmq copies what is shorter than its batches of 8 KiB in any case.
constexpr size_t kBorrowedBytes = 8192;

template <typename Places>
void RangesOf(const Places& places, std::vector<Range>& ranges) {
  ranges.clear();
  for (const auto& place : places) {
    if (!ranges.empty() && ranges.back().offset + ranges.back().count == place.range.offset) {
      ranges.back().count += place.range.count;
    } else {
      ranges.push_back(place.range);
    }
  }
}

void GiveBack(void*, void* borrowed) {
  static_cast<std::atomic<int>*>(borrowed)->fetch_sub(1, std::memory_order_release);
}

void TellOfValues(const RequestPart& part, RequestState& state) {
  for (const Sink& sink : part.pull) {
    if (!state.values_due.empty()) --state.values_due[sink.variable];
    if (state.take) state.take(sink.variable, {sink.to, sink.range.count});
  }
}

// Its gradients are sent from where they lie.
bool IsBorrowed(const RequestPart& part, WireFloat values) {
  return part.push.size() == 1 && part.PushBytes() >= kBorrowedBytes &&
         values == WireFloat::kFloat32;
}

// Of a model whose gradients do, all large ones.
bool LieInSharedMemory(const std::vector<RequestPart>& parts, const Connection& connection) {
  return std::any_of(parts.begin(), parts.end(), [&](const RequestPart& part) {
    return IsBorrowed(part, WireFloat::kFloat32) &&
           connection.PlaceOf(part.push.front().from, part.PushBytes());
  });
}

// Its values are one piece of the caller's memory.
bool IsWantedInOnePiece(const RequestPart& part, WireFloat values) {
  return part.pull.size() == 1 && !part.about_rows() && values == WireFloat::kFloat32;
}

zmq::message_t Borrow(const Source& source, std::atomic<int>& borrowed) {
  borrowed.fetch_add(1, std::memory_order_relaxed);
  // Sent from where it lies: libzmq only reads it.
  return {const_cast<float*>(source.from), source.range.count * sizeof(float), GiveBack, &borrowed};
}

void Gather(const std::vector<Source>& sources, WireFloat values, void* into) {
  auto* to = static_cast<char*>(into);
  for (const Source& source : sources) {
    ToWire({source.from, source.range.count}, values, to);
    to += source.range.count * SizeOf(values);
  }
}

void Scatter(const zmq::message_t& payload, const std::vector<Sink>& sinks, WireFloat values) {
  const auto* from = payload.data<char>();
  for (const Sink& sink : sinks) {
    const bool is_there = static_cast<const void*>(from) == sink.to;  // the server has brought it
    if (!is_there) FromWire(from, values, {sink.to, sink.range.count});
    from += sink.range.count * SizeOf(values);
  }
}

}  // namespace

bool SendCounted(Connection& connection, Message& message, LinkCounters& counters) {
  const size_t bytes = message.size_bytes();
  if (!connection.Send(message)) return false;
  counters.sent_bytes += bytes;
  ++counters.messages;
  return true;
}

Outbox::Outbox(const Request& hello, size_t bytes_under_way, WireFloat values, ServerFacts& facts)
    : facts_(facts), bytes_limit_(bytes_under_way), values_(values) {
  outgoing_.attempt = hello.attempt;
  outgoing_.client = hello.client;
}

void Outbox::Begin(std::shared_ptr<RequestState> state, Operation operation,
                   std::vector<RequestPart> parts, const Connection& connection) {
  assert(!parts.empty());
  // Where answers wait for the whole push, the parts of other requests fill both directions, or
  // nothing is carried, smaller messages only cost time.
  if (connection.BothWaysAtOnce() && operation == Operation::kExchange && !facts_.holds_back &&
      begun_.empty() && !LieInSharedMemory(parts, connection)) {
    CutEnds(parts);
  }
  const bool is_push = state->is_push;
  if (!is_push || !facts_.holds_back || FitsUnderWay(parts)) {
    BeginOne(std::move(state), operation, is_push, std::move(parts));
    return;
  }
  // The server answers none of its parts with values before it has them all, and they cannot all be
  // under way: first all gradients, then all values.
  std::vector<RequestPart> pulls;
  for (RequestPart& part : parts) {
    if (part.pull.empty() && part.pull_rows.empty()) continue;
    RequestPart& pull = pulls.emplace_back();
    pull.block = part.block;
    pull.pull = std::exchange(part.pull, {});
    pull.pull_rows = std::exchange(part.pull_rows, {});
  }
  BeginOne(state, operation, true, std::move(parts));
  if (!pulls.empty()) BeginOne(std::move(state), operation, false, std::move(pulls));
}

void Outbox::BeginOne(std::shared_ptr<RequestState> state, Operation operation, bool is_push,
                      std::vector<RequestPart> parts) {
  const size_t count = parts.size();
  ++state->servers;
  for (RequestPart& part : parts) {
    if (part.LacksGradients(*state)) part.fate = RequestPart::Fate::kLacksGradients;
    if (state->values_due.empty()) continue;
    for (const Sink& sink : part.pull) ++state->values_due[sink.variable];
  }
  const uint64_t local_step = state->own_step.value_or(facts_.local_step);
  begun_.emplace(next_sequence_, Begun{std::move(state), operation, std::move(parts), is_push,
                                       local_step, 0, count});
  unsent_.push_back(next_sequence_++);
}

bool Outbox::FitsUnderWay(const std::vector<RequestPart>& parts) const {
  size_t bytes = 0;
  for (const RequestPart& part : parts) bytes += part.PushBytes() + part.PullBytes();
  return parts.size() == 1 || (parts.size() <= kMaxMessagesUnderWay && bytes <= bytes_limit_);
}

void Outbox::Release(const RequestState& state) {
  for (auto& [sequence, begun] : begun_) {
    if (begun.state.get() != &state) continue;
    bool released = false;
    for (RequestPart& part : begun.parts) {
      if (part.fate != RequestPart::Fate::kLacksGradients || part.LacksGradients(state)) continue;
      part.fate = RequestPart::Fate::kWaits;
      released = true;
    }
    if (!released) continue;
    begun.next = 0;
    if (std::find(unsent_.begin(), unsent_.end(), sequence) == unsent_.end()) {
      unsent_.push_back(sequence);
    }
  }
}

// What went out on the connection before may be lost. If it is not, the server sees the same part
// of the same request twice and applies it once.
void Outbox::BeginAnew() {
  bytes_under_way_ = 0;
  messages_under_way_ = 0;
  unsent_.clear();
  for (auto& [sequence, begun] : begun_) {
    begun.next = 0;
    for (RequestPart& part : begun.parts) {
      if (part.fate == RequestPart::Fate::kUnderWay) part.fate = RequestPart::Fate::kWaits;
    }
    unsent_.push_back(sequence);
  }
}

bool Outbox::Send(Connection& connection, LinkCounters& counters) {
  bool sent = false;
  while (!unsent_.empty()) {
    const uint64_t sequence = unsent_.front();
    const auto found = begun_.find(sequence);
    Begun* const begun = found == begun_.end() ? nullptr : &found->second;
    while (begun != nullptr && begun->next < begun->parts.size() &&
           begun->parts[begun->next].fate != RequestPart::Fate::kWaits) {
      ++begun->next;
    }
    if (begun == nullptr || begun->next == begun->parts.size()) {
      unsent_.pop_front();
      continue;
    }
    if (!SendNextPart(sequence, *begun, connection, counters)) break;
    sent = true;
    // In turn: the parts of a large request leave room for a small one between them. Not where
    // answers wait for the last part of a push: two halves of pushes would wait for ever. Nor where
    // a push moves all rows of a table with its last part: the next one's gradients would be in it.
    if (facts_.holds_back || (facts_.moves_all_rows && begun->is_push)) continue;
    unsent_.pop_front();
    unsent_.push_back(sequence);
  }
  return sent;
}

bool Outbox::SendNextPart(uint64_t sequence, Begun& begun, Connection& connection,
                          LinkCounters& counters) {
  RequestPart& part = begun.parts[begun.next];
  const Carried carried = CarriedOf(begun, part, connection);
  const size_t bytes = carried.push + carried.pull;
  if (!MayBeUnderWay(bytes) || !connection.HasRoomFor(carried.push)) return false;
  Message message = MessageFor(sequence, begun, begun.next, carried.place);
  if (!SendCounted(connection, message, counters)) return false;
  if (std::exchange(part.was_sent, true)) ++counters.sent_again;
  part.fate = RequestPart::Fate::kUnderWay;
  part.bytes_under_way = bytes;
  bytes_under_way_ += bytes;
  ++messages_under_way_;
  return true;
}

Outbox::Carried Outbox::CarriedOf(const Begun& begun, const RequestPart& part,
                                  const Connection& connection) const {
  Carried carried{part.PushBytes(), part.PullBytes(), std::nullopt};
  const WireFloat values = ValuesOf(begun, part);
  if (IsBorrowed(part, values) && connection.PlaceOf(part.push.front().from, carried.push)) {
    carried.push = 0;
  }
  if (IsWantedInOnePiece(part, values) && begun.operation == Operation::kExchange) {
    carried.place = connection.PlaceOf(part.pull.front().to, carried.pull);
  }
  if (carried.place) carried.pull = 0;
  return carried;
}

bool Outbox::MayBeUnderWay(size_t bytes) const {
  if (messages_under_way_ == 0) return true;
  return messages_under_way_ < kMaxMessagesUnderWay && bytes_under_way_ + bytes <= bytes_limit_;
}

Message Outbox::MessageFor(uint64_t sequence, const Begun& begun, size_t number,
                           std::optional<uint64_t> place) {
  const RequestPart& part = begun.parts[number];
  outgoing_.operation = part.about_rows() ? Operation::kRows : begun.operation;
  PartHeader& header = outgoing_.part;
  header.creation = facts_.creation;
  header.sequence = sequence;
  header.oldest = Oldest();
  header.number = static_cast<uint32_t>(number);
  header.of = static_cast<uint32_t>(begun.parts.size());
  header.block = part.block;
  header.is_push = begun.is_push;
  header.local_step = begun.local_step;
  header.values = ValuesOf(begun, part);
  header.place = place;
  RangesOf(part.push, header.push);
  RangesOf(part.pull, header.pull);
  CountsOf(part, header.rows);
  Message message{Encode(outgoing_), {}};
  const size_t bytes = part.PushBytes();
  if (bytes == 0) return message;
  if (part.about_rows()) {
    message.unwritten = {bytes, [&part, &header](void* to) { WriteRows(part, header.rows, to); }};
  } else if (IsBorrowed(part, header.values)) {
    message.payload = Borrow(part.push.front(), begun.state->borrowed);
  } else {
    message.unwritten = {
        bytes / sizeof(float) * SizeOf(header.values),
        [&part, values = header.values](void* to) { Gather(part.push, values, to); }};
  }
  return message;
}

// First values are the model itself, and rows travel among their numbers.
WireFloat Outbox::ValuesOf(const Begun& begun, const RequestPart& part) const {
  const bool dense = begun.operation == Operation::kExchange && !part.about_rows();
  return dense ? values_ : WireFloat::kFloat32;
}

void Outbox::Take(const Reply& reply, const zmq::message_t& payload, const std::string& server) {
  const auto found = begun_.find(reply.sequence);
  if (found == begun_.end()) return;  // sent twice, answered twice
  Begun& begun = found->second;
  if (reply.number >= begun.parts.size()) {
    throw Error(Phase::kRun, server + " answers a part that was not asked for");
  }
  RequestPart& part = begun.parts[reply.number];
  if (part.fate == RequestPart::Fate::kAnswered) return;
  const WireFloat values = ValuesOf(begun, part);
  const size_t pull_bytes = part.PullBytes() / sizeof(float) * SizeOf(values);
  if (reply.status == Status::kRefused) {
    if (!begun.state->refusal) begun.state->refusal = RefusalOf(reply, server);
  } else if (payload.size() != pull_bytes) {
    throw Error(Phase::kRun, fmt::format("{} answers with {} bytes of values where {} belong",
                                         server, payload.size(), pull_bytes));
  } else {
    Scatter(payload, part.pull, values);
    ScatterRows(payload, part);
    TellOfValues(part, *begun.state);
    facts_.local_step = reply.local_step;
    facts_.held_for.clear();
  }
  if (part.fate == RequestPart::Fate::kUnderWay) {
    bytes_under_way_ -= part.bytes_under_way;
    --messages_under_way_;
  }
  part.fate = RequestPart::Fate::kAnswered;
  if (--begun.unanswered > 0) return;
  --begun.state->servers;
  begun_.erase(found);
}

const RequestState* Outbox::Find(const RequestState* state) const {
  const auto found = std::find_if(begun_.begin(), begun_.end(), [&](const auto& entry) {
    return state == nullptr || entry.second.state.get() == state;
  });
  return found == begun_.end() ? nullptr : found->second.state.get();
}

uint64_t Outbox::Oldest() const { return begun_.empty() ? next_sequence_ : begun_.begin()->first; }

}  // namespace tfdist::runtime
