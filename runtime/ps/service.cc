#include "runtime/ps/service.h"

#include <fmt/format.h>
#include <sodium.h>

#include <cstring>
#include <utility>

#include "base/error.h"
#include "runtime/update/optimizer.h"

namespace tfdist::runtime {
namespace {

// Up to here a copy costs less than what keeping a version costs.
constexpr size_t kAlwaysCopiedBytes = 4096;

uint64_t RandomStore() {
  uint64_t store = 0;
  randombytes_buf(&store, sizeof store);
  return store;
}

// The payload as floats. libzmq leaves small payloads where they arrived, at any address; those are
// copied into `aligned`.
std::span<const float> FloatsIn(const zmq::message_t& payload, std::vector<float>& aligned) {
  if (payload.size() % sizeof(float) != 0) {
    throw Error(Phase::kRun, "message: the payload is not made of floats");
  }
  const size_t count = payload.size() / sizeof(float);
  if (reinterpret_cast<uintptr_t>(payload.data()) % alignof(float) == 0) {
    return {payload.data<float>(), count};
  }
  aligned.resize(count);
  std::memcpy(aligned.data(), payload.data(), payload.size());
  return aligned;
}

// The same as numbers of rows, which share a payload with floats.
std::span<const uint32_t> WordsIn(const zmq::message_t& payload, std::vector<float>& aligned) {
  const std::span<const float> floats = FloatsIn(payload, aligned);
  return {reinterpret_cast<const uint32_t*>(floats.data()), floats.size()};
}

zmq::message_t CopyOf(std::span<const float> values, const std::vector<Range>& ranges) {
  zmq::message_t payload(FloatsOf(ranges) * sizeof(float));
  auto* to = payload.data<char>();
  for (const Range& range : ranges) {
    std::memcpy(to, values.data() + range.offset, range.count * sizeof(float));
    to += range.count * sizeof(float);
  }
  return payload;
}

zmq::message_t ReferenceTo(Version& version, const Range& range) {
  return {version.values().data() + range.offset, range.count * sizeof(float),
          [](void*, void* held) { static_cast<Version*>(held)->LetGo(); }, &version};
}

}  // namespace

Service::Service(ServiceOptions options) : options_(std::move(options)), store_id_(RandomStore()) {}

void Service::Handle(const Peer& peer, const Message& message, std::vector<Outgoing>& replies) {
  counters_.received_bytes += message.size_bytes();
  const size_t first = replies.size();
  try {
    Decode(message.header.to_string_view(), request_);
    Answer({peer, request_, message}, replies);
  } catch (const Error& error) {
    Refuse(peer, request_, error.cause(), replies);
  }
  for (size_t i = first; i < replies.size(); ++i) {
    counters_.sent_bytes += replies[i].message.size_bytes();
  }
}

void Service::Answer(const Asked& asked, std::vector<Outgoing>& replies) {
  if (asked.request.operation == Operation::kHello) {
    Hello(asked, replies);
    return;
  }
  const auto known = routes_.find(asked.peer.route);
  if (known == routes_.end()) {
    // Left over from a connection that broke: its sender says hello, then sends it again.
    ++counters_.strangers;
    return;
  }
  Session& session = *known->second;
  if (asked.request.run != session.run() || asked.request.attempt != options_.attempt) {
    throw Error(Phase::kRun, "message: not of the run that said hello");
  }
  switch (asked.request.operation) {
    case Operation::kHello:
      break;
    case Operation::kCreate:
      ExpectChief(session);
      Create(asked, replies);
      break;
    case Operation::kOpen:
      Open(asked, session, replies);
      break;
    case Operation::kAssign:
      ExpectChief(session);
      Assign(asked, replies);
      break;
    case Operation::kExchange:
      Exchange(asked, session, replies);
      break;
    case Operation::kRows:
      Rows(asked, session, replies);
      break;
  }
}

void Service::Hello(const Asked& asked, std::vector<Outgoing>& replies) {
  const std::string& task = asked.request.task;
  // Without security there is no proof, and the sender's word stands.
  if (!asked.peer.task.empty() && asked.peer.task != task) {
    throw Error(Phase::kRun, "this key belongs to " + asked.peer.task + ", not to " + task);
  }
  if (!options_.trainers.contains(task)) {
    throw Error(Phase::kRun, task + " is no trainer of this job");
  }
  if (asked.request.attempt < options_.attempt) {
    throw Error(Phase::kRun, fmt::format("attempt {} is over; this server belongs to attempt {}",
                                         asked.request.attempt, options_.attempt));
  }
  if (asked.request.attempt > options_.attempt) return;
  Session& session = sessions_.try_emplace(task, task).first->second;
  routes_.erase(session.route());
  session.Begin(asked.peer.route, asked.request.run);
  routes_[asked.peer.route] = &session;
  waiting_.erase(task);  // it asks again, on this connection
  replies.push_back({asked.peer, {Encode(ReplyTo(asked.request)), {}}});
}

void Service::ExpectChief(const Session& session) const {
  if (session.task() == options_.chief) return;
  throw Error(Phase::kRun, "variables are created by " + options_.chief);
}

// All of it or, throwing, nothing.
void Service::Declare(const Request& request) {
  const Optimizer optimizer(ParseOptimizer(request.optimizer));
  if (store_.declared()) {
    store_.Declare(request.variables, optimizer);
    tables_.ExpectSame(request.tables);
    return;
  }
  TableStore tables(request.tables, optimizer);
  store_.Declare(request.variables, optimizer);
  tables_ = std::move(tables);
  sums_rows_ = optimizer.sum_repeated_rows();
}

void Service::Create(const Asked& asked, std::vector<Outgoing>& replies) {
  Declare(asked.request);
  Reply reply = ReplyTo(asked.request);
  if (!store_.created()) reply.status = Status::kValuesWanted;
  replies.push_back({asked.peer, {Encode(reply), {}}});
  if (store_.created()) AnswerThoseWhoWait(replies);  // a server without variables has no values
}

void Service::Open(const Asked& asked, Session& session, std::vector<Outgoing>& replies) {
  if (!store_.created()) {
    waiting_[session.task()] = {asked.request.variables, asked.request.tables};
    return;
  }
  store_.ExpectSame(asked.request.variables);
  tables_.ExpectSame(asked.request.tables);
  replies.push_back({asked.peer, {Encode(ReplyTo(asked.request)), {}}});
}

void Service::AnswerThoseWhoWait(std::vector<Outgoing>& replies) {
  for (const auto& [task, wanted] : std::exchange(waiting_, {})) {
    const Peer peer{sessions_.at(task).route(), task};
    Request request;
    request.operation = Operation::kOpen;
    try {
      store_.ExpectSame(wanted.variables);
      tables_.ExpectSame(wanted.tables);
      replies.push_back({peer, {Encode(ReplyTo(request)), {}}});
    } catch (const Error& error) {
      Refuse(peer, request, error.cause(), replies);
    }
  }
}

void Service::ExpectThisStore(const PartHeader& part) const {
  if (store_.declared() && part.store == store_id_) return;
  throw Error(Phase::kRun, "the variables are gone: this server was started again");
}

void Service::Assign(const Asked& asked, std::vector<Outgoing>& replies) {
  const PartHeader& part = asked.request.part;
  ExpectThisStore(part);
  const bool was_created = store_.created();
  // Once training has begun, first values that were sent again come too late.
  if (!was_created) {
    store_.Assign(part.block, part.push, FloatsIn(asked.message.payload, aligned_));
  }
  replies.push_back({asked.peer, {Encode(ReplyTo(asked.request)), {}}});
  if (!was_created && store_.created()) AnswerThoseWhoWait(replies);
}

void Service::Exchange(const Asked& asked, Session& session, std::vector<Outgoing>& replies) {
  const PartHeader& part = asked.request.part;
  ExpectThisStore(part);
  if (!store_.created()) throw Error(Phase::kRun, "the variables have no values yet");
  store_.ExpectValid(part.block, part.pull);
  if (part.update) Push(asked, session);
  if (!part.pull.empty() && part.number == 0) ++counters_.pulls;
  replies.push_back({asked.peer, {Encode(ReplyTo(asked.request)), ValuesOf(part)}});
}

void Service::Push(const Asked& asked, Session& session) {
  const PartHeader& part = asked.request.part;
  if (session.IsApplied(part)) {
    ++counters_.repeated;
    return;
  }
  store_.Push(part.block, part.push, FloatsIn(asked.message.payload, aligned_),
              session.StepsOf(part));
  CountApplied(part, session);
}

void Service::CountApplied(const PartHeader& part, Session& session) {
  if (!session.SetApplied(part)) return;
  ++step_;
  ++counters_.pushes;
}

void Service::Rows(const Asked& asked, Session& session, std::vector<Outgoing>& replies) {
  const PartHeader& part = asked.request.part;
  ExpectThisStore(part);
  if (!store_.created()) throw Error(Phase::kRun, "the variables have no values yet");
  const auto rows = tables_.Read(part.rows, WordsIn(asked.message.payload, aligned_));
  if (part.update) PushRows(part, rows, session);
  replies.push_back({asked.peer, {Encode(ReplyTo(asked.request)), RowsOf(rows)}});
}

void Service::PushRows(const PartHeader& part, std::span<const TableStore::Section> rows,
                       Session& session) {
  if (session.IsApplied(part)) {
    ++counters_.repeated;
    return;
  }
  tables_.Push(rows, session.StepsOf(part));
  for (const TableStore::Section& section : rows) counters_.pushed_rows += section.push.rows.size();
  CountApplied(part, session);
}

zmq::message_t Service::RowsOf(std::span<const TableStore::Section> rows) {
  const size_t floats = TableStore::FloatsPulled(rows);
  if (floats == 0) return {};
  zmq::message_t payload(floats * sizeof(float));
  tables_.Pull(rows, payload.data<float>());
  for (const TableStore::Section& section : rows) counters_.pulled_rows += section.pull.size();
  return payload;
}

zmq::message_t Service::ValuesOf(const PartHeader& part) {
  const size_t floats = FloatsOf(part.pull);
  if (floats == 0) return {};
  const std::span<const float> values = store_.Values(part.block);
  const bool whole = floats == values.size();
  // A hold on the block for the sake of a few values would cost the next update a copy of it all.
  const bool copy = floats * sizeof(float) <= kAlwaysCopiedBytes || part.pull.size() > 1 ||
                    (!whole && store_.ChangesOften(part.block));
  if (copy) return CopyOf(values, part.pull);
  return ReferenceTo(store_.Hold(part.block), part.pull.front());
}

Reply Service::ReplyTo(const Request& request) const {
  Reply reply;
  reply.operation = request.operation;
  reply.step = step_;
  switch (request.operation) {
    case Operation::kHello:
      break;
    case Operation::kCreate:
    case Operation::kOpen:
      reply.store = store_id_;
      reply.sums_rows = sums_rows_;
      break;
    case Operation::kExchange:
    case Operation::kAssign:
    case Operation::kRows:
      reply.number = request.part.number;
      reply.sequence = request.part.sequence;
      break;
  }
  return reply;
}

void Service::Refuse(const Peer& peer, const Request& request, const std::string& why,
                     std::vector<Outgoing>& replies) {
  ++counters_.refused;
  Reply reply = ReplyTo(request);
  reply.status = Status::kRefused;
  reply.error = why;
  replies.push_back({peer, {Encode(reply), {}}});
}

}  // namespace tfdist::runtime
