#include "runtime/client/link.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "runtime/client/rows.h"
#include "runtime/update/update_mode.h"

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
    FromWire(from, values, {sink.to, sink.range.count});
    from += sink.range.count * SizeOf(values);
  }
}

}  // namespace

Link::Link(std::string name, std::unique_ptr<Connection> connection, Request hello,
           size_t bytes_under_way, WireFloat values, size_t other_threads)
    : name_(std::move(name)),
      connection_(std::move(connection)),
      hello_(std::move(hello)),
      bytes_limit_(bytes_under_way),
      values_(values),
      other_threads_(other_threads) {
  outgoing_.attempt = hello_.attempt;
  outgoing_.client = hello_.client;
}

void Link::Connect(std::string name, std::unique_ptr<Connection> connection) {
  name_ = std::move(name);
  connection_ = std::move(connection);
  connected_ = false;
}

void Link::Ask(Request question) {
  assert(!asking());
  question_ = std::move(question);
  question_.attempt = hello_.attempt;
  question_.client = hello_.client;
  question_pending_ = true;
  question_due_ = true;
}

void Link::Begin(std::shared_ptr<RequestState> state, Operation operation,
                 std::vector<RequestPart> parts) {
  assert(!parts.empty());
  const bool is_push = state->is_push;
  if (!is_push || !holds_back_ || FitsUnderWay(parts)) {
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

void Link::BeginOne(std::shared_ptr<RequestState> state, Operation operation, bool is_push,
                    std::vector<RequestPart> parts) {
  const size_t count = parts.size();
  ++state->servers;
  begun_.emplace(next_sequence_, Begun{std::move(state), operation, std::move(parts), is_push,
                                       local_step_, 0, count});
  unsent_.push_back(next_sequence_++);
}

bool Link::FitsUnderWay(const std::vector<RequestPart>& parts) const {
  size_t bytes = 0;
  for (const RequestPart& part : parts) bytes += part.PushBytes() + part.PullBytes();
  return parts.size() == 1 || (parts.size() <= kMaxMessagesUnderWay && bytes <= bytes_limit_);
}

void Link::SayGoodbye() {
  if (!connected_ || hello_due_ || !holds_back_) return;
  outgoing_.operation = Operation::kGoodbye;
  Message message{Encode(outgoing_), {}};
  Send(message);
}

void Link::SendWhatMayBe() {
  SendDue();
  SendParts();
}

bool Link::MoveOn() {
  TakeAnswers();
  const bool due = SendDue();
  return SendParts() || due;
}

void Link::FollowConnection() {
  while (true) {
    switch (connection_->NextEvent()) {
      case Connection::Event::kNone:
        return;
      case Connection::Event::kMade:
        connected_ = true;
        BeginAnew();
        break;
      case Connection::Event::kBroken:
        connected_ = false;
        break;
    }
  }
}

// What went out on the connection before may be lost. If it is not, the server sees the same part
// of the same request twice and applies it once.
void Link::BeginAnew() {
  hello_due_ = true;
  greeted_ = false;
  question_due_ = question_pending_;
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

bool Link::SendDue() {
  if (!connected_ || !(hello_due_ || question_due_)) return false;
  bool sent = false;
  if (hello_due_) {
    Message message{Encode(hello_), {}};
    hello_due_ = !Send(message);
    sent = !hello_due_;
  }
  if (question_due_ && !hello_due_ && ports_) {
    Message message{Encode(question_), {}};
    question_due_ = !Send(message);
    sent = sent || !question_due_;
  }
  return sent;
}

bool Link::Send(Message& message) {
  const size_t bytes = message.size_bytes();
  if (!connection_->Send(message)) return false;
  counters_.sent_bytes += bytes;
  ++counters_.messages;
  return true;
}

bool Link::SendParts() {
  if (!connected_ || hello_due_ || !opened()) return false;
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
    if (!SendNextPart(sequence, *begun)) break;
    sent = true;
    // In turn: the parts of a large request leave room for a small one between them. Not where
    // answers wait for the last part of a push: two halves of pushes would wait for ever. Nor where
    // a push moves all rows of a table with its last part: the next one's gradients would be in it.
    if (holds_back_ || (moves_all_rows_ && begun->is_push)) continue;
    unsent_.pop_front();
    unsent_.push_back(sequence);
  }
  return sent;
}

bool Link::SendNextPart(uint64_t sequence, Begun& begun) {
  RequestPart& part = begun.parts[begun.next];
  const size_t bytes = part.PushBytes() + part.PullBytes();
  if (!MayBeUnderWay(bytes) || !connection_->HasRoomFor(part.PushBytes())) return false;
  Message message = MessageFor(sequence, begun, begun.next);
  if (!Send(message)) return false;
  if (std::exchange(part.was_sent, true)) ++counters_.sent_again;
  part.fate = RequestPart::Fate::kUnderWay;
  bytes_under_way_ += bytes;
  ++messages_under_way_;
  return true;
}

bool Link::MayBeUnderWay(size_t bytes) const {
  if (messages_under_way_ == 0) return true;
  return messages_under_way_ < kMaxMessagesUnderWay && bytes_under_way_ + bytes <= bytes_limit_;
}

Message Link::MessageFor(uint64_t sequence, const Begun& begun, size_t number) {
  const RequestPart& part = begun.parts[number];
  outgoing_.operation = part.about_rows() ? Operation::kRows : begun.operation;
  PartHeader& header = outgoing_.part;
  header.creation = creation_;
  header.sequence = sequence;
  header.oldest = Oldest();
  header.number = static_cast<uint32_t>(number);
  header.of = static_cast<uint32_t>(begun.parts.size());
  header.block = part.block;
  header.is_push = begun.is_push;
  header.local_step = begun.local_step;
  header.values = ValuesOf(begun, part);
  RangesOf(part.push, header.push);
  RangesOf(part.pull, header.pull);
  CountsOf(part, header.rows);
  Message message{Encode(outgoing_), {}};
  const size_t bytes = part.PushBytes();
  if (bytes == 0) return message;
  if (part.about_rows()) {
    message.unwritten = {bytes, [&part, &header](void* to) { WriteRows(part, header.rows, to); }};
  } else if (part.push.size() == 1 && bytes >= kBorrowedBytes &&
             header.values == WireFloat::kFloat32) {
    message.payload = Borrow(part.push.front(), begun.state->borrowed);
  } else {
    message.unwritten = {
        bytes / sizeof(float) * SizeOf(header.values),
        [&part, values = header.values](void* to) { Gather(part.push, values, to); }};
  }
  return message;
}

// First values are the model itself, and rows travel among their numbers.
WireFloat Link::ValuesOf(const Begun& begun, const RequestPart& part) const {
  const bool dense = begun.operation == Operation::kExchange && !part.about_rows();
  return dense ? values_ : WireFloat::kFloat32;
}

void Link::TakeAnswers() {
  while (connection_->Receive(incoming_)) {
    counters_.received_bytes += incoming_.size_bytes();
    Take(incoming_);
  }
}

void Link::Take(const Message& message) {
  Decode(message.header.to_string_view(), reply_);
  step_ = std::max(step_, reply_.step);
  if (reply_.status == Status::kWaiting) {
    held_for_ = reply_.error;
    return;  // no answer: who waits gives up in the end
  }
  last_answer_ = std::chrono::steady_clock::now();
  switch (reply_.operation) {
    case Operation::kGoodbye:
    case Operation::kLocal:
      break;
    case Operation::kHello:
      TakeHello();
      break;
    case Operation::kCreate:
    case Operation::kOpen:
      TakeQuestionsAnswer();
      break;
    case Operation::kExchange:
    case Operation::kAssign:
    case Operation::kRows:
      TakePart(message);
      break;
  }
}

void Link::TakeHello() {
  ThrowIfRefused();
  if (reply_.ports.size() != other_threads_) {
    throw Error(Phase::kRun,
                fmt::format("{} has {} threads, and {} are expected", name_,
                            reply_.ports.size() + 1, other_threads_ + 1),
                "give every task of the job the same --server-threads");
  }
  ports_ = reply_.ports;
  greeted_ = true;
}

void Link::TakeQuestionsAnswer() {
  if (!asking() || reply_.operation != question_.operation) return;  // asked twice, answered twice
  ThrowIfRefused();
  if (reply_.creation == 0)
    throw Error(Phase::kRun, name_ + " answers without naming its variables");
  question_pending_ = false;
  question_due_ = false;
  creation_ = reply_.creation;
  local_step_ = reply_.local_step;
  holds_back_ = ParseUpdateMode(reply_.update_mode).kind != UpdateKind::kAsync;
  values_wanted_ = reply_.status == Status::kValuesWanted;
  sums_rows_ = reply_.sums_rows;
  moves_all_rows_ = reply_.moves_all_rows;
  is_new_ = reply_.is_new;
}

void Link::TakePart(const Message& message) {
  const auto found = begun_.find(reply_.sequence);
  if (found == begun_.end()) return;  // sent twice, answered twice
  Begun& begun = found->second;
  if (reply_.number >= begun.parts.size()) {
    throw Error(Phase::kRun, name_ + " answers a part that was not asked for");
  }
  RequestPart& part = begun.parts[reply_.number];
  if (part.fate == RequestPart::Fate::kAnswered) return;
  const WireFloat values = ValuesOf(begun, part);
  const size_t pull_bytes = part.PullBytes() / sizeof(float) * SizeOf(values);
  if (reply_.status == Status::kRefused) {
    if (!begun.state->refusal) begun.state->refusal = RefusalOf(reply_);
  } else if (message.payload.size() != pull_bytes) {
    throw Error(Phase::kRun, fmt::format("{} answers with {} bytes of values where {} belong",
                                         name_, message.payload.size(), pull_bytes));
  } else {
    Scatter(message.payload, part.pull, values);
    ScatterRows(message.payload, part);
    local_step_ = reply_.local_step;
    held_for_.clear();
  }
  if (part.fate == RequestPart::Fate::kUnderWay) {
    bytes_under_way_ -= part.PushBytes() + part.PullBytes();
    --messages_under_way_;
  }
  part.fate = RequestPart::Fate::kAnswered;
  if (--begun.unanswered > 0) return;
  --begun.state->servers;
  begun_.erase(found);
}

void Link::ThrowIfRefused() const {
  if (reply_.status == Status::kRefused) throw RefusalOf(reply_);
}

Refusal Link::RefusalOf(const Reply& reply) const {
  return {reply.refusal, name_ + " refuses the request: " + reply.error, reply.remedy};
}

uint64_t Link::Oldest() const { return begun_.empty() ? next_sequence_ : begun_.begin()->first; }

std::string Link::WaitsFor(const RequestState* state) const {
  const auto found = std::find_if(begun_.begin(), begun_.end(), [&](const auto& entry) {
    return state == nullptr || entry.second.state.get() == state;
  });
  if (found == begun_.end() && (!asking() || state != nullptr)) return "";
  if (!connected_) {
    return connection_->BreaksInHandshake()
               ? "handshake failed: do both sides have the same secret?"
               : "connection";
  }
  if (!greeted_) return "reply to hello (servers of older attempts do not answer)";
  if (asking()) {
    return question_.operation == Operation::kCreate ? "creation of the variables"
                                                     : "variables, which the chief creates";
  }
  if (!held_for_.empty()) return "it waits for " + held_for_;
  const uint64_t step = found->second.state->next_step;
  return step == 0 ? "values" : fmt::format("reply to step {}", step);
}

}  // namespace tfdist::runtime
