#include "runtime/ps/service.h"

#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "base/error.h"
#include "runtime/update/optimizer.h"

namespace tfdist::runtime {
namespace {

const SystemClock kSystemClock;

// Unasked messages to a trainer that says nothing itself: they must not take the place of answers
// in its queue.
constexpr int kMaxNotices = 32;
// At first it is told after a tick, then after two, four and so on.
constexpr int kMaxDoublings = 16;

// Up to here a copy costs less than what keeping a version costs.
constexpr size_t kAlwaysCopiedBytes = 4096;

uint64_t RandomStore() {
  uint64_t store = 0;
  randombytes_buf(&store, sizeof store);
  return store | 1;  // 0 is none
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

void Copy(std::span<const float> values, const PartHeader& part, void* into) {
  auto* to = static_cast<char*>(into);
  for (const Range& range : part.pull) {
    ToWire(values.subspan(range.offset, range.count), part.values, to);
    to += range.count * SizeOf(part.values);
  }
}

std::string AnotherCameAs(const std::string& task) { return "another process has come as " + task; }

bool AsksForValues(const PartHeader& part) {
  return !part.pull.empty() || std::any_of(part.rows.begin(), part.rows.end(),
                                           [](const RowCounts& rows) { return rows.pull > 0; });
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
  AdmitThoseWhoMayGoOn(replies);
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
  if (policy_) session.notices = {};
  switch (asked.request.operation) {
    case Operation::kHello:
    case Operation::kLocal:
      break;
    case Operation::kGoodbye:
      Finish(session);
      break;
    case Operation::kCreate:
      ExpectChief(session);
      Create(asked, session, replies);
      break;
    case Operation::kOpen:
      Open(asked, session, replies);
      break;
    case Operation::kAssign:
      ExpectChief(session);
      Assign(asked, replies);
      break;
    case Operation::kExchange:
    case Operation::kRows:
      Exchange(asked, session, replies);
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
  if (session.IsPast(asked.request.run)) throw Error(Phase::kRun, AnotherCameAs(task));
  held_.Drop(task, Now());  // it asks again, on this connection
  // Another process of that task: what the one before had to wait for is over.
  if (session.run() != asked.request.run) {
    if (session.route() != asked.peer.route) TurnAway(session, replies);
    Leave(session);
  }
  routes_.erase(session.route());
  session.Begin(asked.peer.route, asked.request.run);
  session.gone_since.reset();
  session.notices = {};
  routes_[asked.peer.route] = &session;
  waiting_.erase(task);
  Reply reply = ReplyTo(asked.request);
  reply.ports = ports_;
  replies.push_back({asked.peer, {Encode(reply), {}}});
}

// Whoever is there, if it still is, would wait for ever.
void Service::TurnAway(const Session& session, std::vector<Outgoing>& replies) const {
  if (!routes_.contains(session.route())) return;
  Reply reply;
  reply.status = Status::kRefused;
  reply.step = step_;
  reply.error = AnotherCameAs(session.task());
  replies.push_back({{session.route(), session.task()}, {Encode(reply), {}}});
}

void Service::ExpectChief(const Session& session) const {
  if (session.task() == options_.chief) return;
  throw Error(Phase::kRun, "variables are created by " + options_.chief);
}

// All of it or, throwing, nothing.
void Service::Declare(const Request& request) {
  const UpdateMode mode = Completed(ParseUpdateMode(request.update), options_.trainers.size());
  const Optimizer optimizer(ParseOptimizer(request.optimizer));
  if (store_.declared()) {
    store_.Declare(request.variables, optimizer);
    tables_.ExpectSame(request.tables);
    return;
  }
  TableStore tables(request.tables, optimizer);
  std::unique_ptr<UpdatePolicy> policy = UpdatePolicy::Make(mode, options_.trainers);
  store_.Declare(request.variables, optimizer);
  tables_ = std::move(tables);
  mode_ = mode;
  policy_ = std::move(policy);
  // A mean counts the pushes that name a row, not the messages.
  sums_rows_ = optimizer.sum_repeated_rows() || sums();
}

void Service::Create(const Asked& asked, Session& session, std::vector<Outgoing>& replies) {
  const bool is_new = !store_.declared() || !store_.created();
  try {
    Declare(asked.request);
  } catch (const std::bad_alloc&) {
    throw Error(Phase::kRun, "this server has not enough memory for these variables");
  }
  Reply reply = ReplyTo(asked.request);
  reply.local_step = session.LocalStep(step_);
  reply.is_new = is_new;
  if (!store_.created()) reply.status = Status::kValuesWanted;
  replies.push_back({asked.peer, {Encode(reply), {}}});
  if (store_.created()) AnswerThoseWhoWait(replies);  // a server without variables has no values
}

void Service::Open(const Asked& asked, Session& session, std::vector<Outgoing>& replies) {
  session.has_asked = true;
  if (!store_.created()) {
    waiting_[session.task()] = {asked.request.variables, asked.request.tables};
    return;
  }
  store_.ExpectSame(asked.request.variables);
  tables_.ExpectSame(asked.request.tables);
  Reply reply = ReplyTo(asked.request);
  reply.local_step = session.LocalStep(step_);
  replies.push_back({asked.peer, {Encode(reply), {}}});
}

void Service::AnswerThoseWhoWait(std::vector<Outgoing>& replies) {
  for (const auto& [task, wanted] : std::exchange(waiting_, {})) {
    const Peer peer{sessions_.at(task).route(), task};
    Request request;
    request.operation = Operation::kOpen;
    try {
      store_.ExpectSame(wanted.variables);
      tables_.ExpectSame(wanted.tables);
      Reply reply = ReplyTo(request);
      reply.local_step = sessions_.at(task).LocalStep(step_);
      replies.push_back({peer, {Encode(reply), {}}});
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
  RowSections rows;
  try {
    // First: a push is known from here on, so that it can be given up. And once it is applied it is
    // too late to refuse.
    if (part.update && policy_ && !session.IsAdmitted(part)) held_.ExpectRoom(session.task());
    if (asked.request.operation == Operation::kRows) {
      rows = tables_.Read(part.rows, WordsIn(asked.message.payload, aligned_));
    } else {
      store_.ExpectValid(part.block, part.pull);
    }
    Join(session);
    if (part.update) Push(asked, rows, session);
  } catch (const Error&) {
    if (part.update) GiveUpPush(part.sequence, session, replies);
    throw;
  }
  if (!part.pull.empty() && part.number == 0) ++counters_.pulls;
  if (const auto awaited = Awaited(part, session)) {
    held_.Hold(session.task(), *awaited, WantedBy(asked, rows), Now());
  } else if (asked.request.operation == Operation::kRows) {
    AnswerRows(part, rows, session, replies);
  } else {
    AnswerPart(part, session, replies);
  }
}

// Without gradients, which are taken in by now.
WantedPart Service::WantedBy(const Asked& asked, RowSections rows) {
  WantedPart wanted{asked.request.operation, asked.request.part, {}};
  for (RowCounts& counts : wanted.part.rows) counts.push = 0;
  for (const TableStore::Section& section : rows) {
    wanted.rows.insert(wanted.rows.end(), section.pull.begin(), section.pull.end());
  }
  return wanted;
}

void Service::AnswerHeld(const WantedPart& wanted, Session& session,
                         std::vector<Outgoing>& replies) {
  if (wanted.operation == Operation::kRows) {
    AnswerRows(wanted.part, tables_.Read(wanted.part.rows, wanted.rows), session, replies);
  } else {
    AnswerPart(wanted.part, session, replies);
  }
  replies.back().message.Write();
}

// The push that the answer has to wait for.
std::optional<uint64_t> Service::Awaited(const PartHeader& part, Session& session) {
  if (!policy_) return std::nullopt;
  if (!part.update) return session.WaitingBefore(part.sequence);
  if (session.IsAdmitted(part)) return std::nullopt;
  if (session.IsWhole(part)) {
    if (!policy_->Waits(session.task(), part.sequence)) {
      policy_->Wait(session.task(), part.sequence);
    }
    return part.sequence;
  }
  // Its trainer may need this answer to send the rest; but values are those of after the push.
  if (!AsksForValues(part)) return std::nullopt;
  return part.sequence;
}

// It never becomes whole: what waits for that would wait for ever. What waits for an earlier push
// does not.
void Service::GiveUpPush(uint64_t sequence, Session& session, std::vector<Outgoing>& replies) {
  session.Admit(sequence);
  for (const WantedPart& wanted : held_.ReleaseOf(session.task(), sequence, Now())) {
    AnswerHeld(wanted, session, replies);
  }
}

void Service::Push(const Asked& asked, RowSections rows, Session& session) {
  const PartHeader& part = asked.request.part;
  if (session.IsApplied(part)) {
    ++counters_.repeated;
    return;
  }
  if (sums() && policy_->IsStale(part.local_step)) {
    session.SetStale(part);
  } else if (asked.request.operation == Operation::kRows) {
    ApplyOrSumRows(part, rows, session);
  } else {
    ApplyOrSum(asked, session);
  }
  FinishPart(part, session);
}

void Service::ApplyOrSum(const Asked& asked, Session& session) {
  const PartHeader& part = asked.request.part;
  const std::span<const float> gradients = GradientsIn(asked);
  if (sums()) {
    store_.Sum(part.block, part.push, gradients);
  } else {
    store_.Push(part.block, part.push, gradients, session.StepsOf(part));
  }
}

void Service::ApplyOrSumRows(const PartHeader& part, RowSections rows, Session& session) {
  if (sums()) {
    tables_.Sum(rows);
  } else {
    tables_.Push(rows, session.StepsOf(part));
  }
  for (const TableStore::Section& section : rows) counters_.pushed_rows += section.push.rows.size();
}

bool Service::sums() const { return policy_ && policy_->sums(); }

std::span<const float> Service::GradientsIn(const Asked& asked) {
  const zmq::message_t& payload = asked.message.payload;
  const WireFloat kind = asked.request.part.values;
  if (kind == WireFloat::kFloat32) return FloatsIn(payload, aligned_);
  if (payload.size() % SizeOf(kind) != 0) {
    throw Error(Phase::kRun, "message: the payload is not made of floats");
  }
  aligned_.resize(payload.size() / SizeOf(kind));
  FromWire(payload.data(), kind, aligned_);
  return aligned_;
}

// Counts the push when that was its last part.
void Service::FinishPart(const PartHeader& part, Session& session) {
  if (!session.SetApplied(part)) return;
  const bool stale = policy_ && session.IsStale(part);
  ++(stale ? counters_.stale : counters_.pushes);
  const bool due = policy_ && policy_->Arrived(session.task(), part.sequence, !stale);
  if (!sums()) return CountStep();
  if (due) TakeStep();
}

void Service::TakeStep() {
  store_.ApplyMeans();
  tables_.ApplyMeans();
  CountStep();
}

void Service::CountStep() {
  ++step_;
  ++counters_.updates;
}

void Service::AnswerPart(const PartHeader& part, Session& session, std::vector<Outgoing>& replies) {
  Reply reply = ReplyTo(part, Operation::kExchange);
  reply.local_step = session.LocalStep(step_);
  Message message;
  try {
    AddValues(part, message);
  } catch (const Error& error) {  // a push that came along is applied all the same
    reply.status = Status::kRefused;
    reply.error = error.cause();
  }
  message.header = Encode(reply);
  replies.push_back({{session.route(), session.task()}, std::move(message)});
}

void Service::Join(Session& session) {
  session.has_asked = true;
  if (!policy_ || std::exchange(session.member, true)) return;
  policy_->Join(session.task());
}

void Service::Lose(Session& session) {
  held_.Drop(session.task(), Now());
  session.member = false;
  policy_->Lose(session.task());
  ++counters_.lost;
}

void Service::Leave(Session& session) {
  held_.Drop(session.task(), Now());
  session.member = false;
  if (policy_) policy_->Leave(session.task());
}

// Who has only created the variables is about to come as somebody else.
void Service::Finish(Session& session) {
  held_.Drop(session.task(), Now());
  session.member = false;
  if (policy_ && session.has_asked && policy_->Finish(session.task())) TakeStep();
}

void Service::AdmitThoseWhoMayGoOn(std::vector<Outgoing>& replies) {
  if (!policy_) return;
  const std::vector<UpdatePolicy::Admitted> all = policy_->Admit();
  if (all.empty()) return;
  // What an answer was to be written from is about to be used for the next one.
  for (Outgoing& reply : replies) reply.message.Write();
  for (const UpdatePolicy::Admitted& admitted : all) {
    Session& session = sessions_.at(admitted.task);
    session.Admit(admitted.sequence);
    session.SetLocalStep(admitted.local_step);
    for (const WantedPart& wanted : held_.Release(session.task(), admitted.sequence, Now())) {
      AnswerHeld(wanted, session, replies);
    }
  }
}

std::chrono::milliseconds Service::tick() const {
  return std::max(options_.lost_after / 10, std::chrono::milliseconds(1));
}

void Service::Tick(std::vector<Outgoing>& replies) {
  const TimePoint now = Now();
  for (auto& [task, session] : sessions_) {
    if (!session.member) continue;
    if (!session.gone_since) {
      Notify(session, now, replies);
    } else if (now - *session.gone_since >= options_.lost_after) {
      Lose(session);
    }
  }
  AdmitThoseWhoMayGoOn(replies);
}

void Service::Notify(Session& session, TimePoint now, std::vector<Outgoing>& replies) {
  Session::Notices& notices = session.notices;
  const std::string text = held_.Holds(session.task()) ? policy_->WaitsFor() : "";
  if (notices.count >= kMaxNotices || (now < notices.next && text == notices.text)) return;
  Reply reply;
  reply.operation = Operation::kExchange;
  reply.status = Status::kWaiting;
  reply.step = step_;
  reply.error = text;
  notices.text = text;
  notices.next = now + tick() * (1 << std::min(notices.count++, kMaxDoublings));
  replies.push_back({{session.route(), session.task()}, {Encode(reply), {}}});
}

void Service::Gone(const Peer& peer) {
  const auto found = routes_.find(peer.route);
  if (found == routes_.end() || found->second->gone_since) return;
  found->second->gone_since = Now();
}

TimePoint Service::Now() const {
  return options_.clock != nullptr ? options_.clock->Now() : kSystemClock.Now();
}

ServiceCounters Service::counters() const {
  ServiceCounters counters = counters_;
  counters.held_seconds = held_.held_seconds();
  return counters;
}

void Service::AnswerRows(const PartHeader& part, RowSections rows, Session& session,
                         std::vector<Outgoing>& replies) {
  Reply reply = ReplyTo(part, Operation::kRows);
  reply.local_step = session.LocalStep(step_);
  Message message{Encode(reply), {}};
  const size_t bytes = TableStore::FloatsPulled(rows) * sizeof(float);
  if (bytes > 0) {
    message.unwritten = {bytes,
                         [this, rows](void* to) { tables_.Pull(rows, static_cast<float*>(to)); }};
  }
  for (const TableStore::Section& section : rows) counters_.pulled_rows += section.pull.size();
  replies.push_back({{session.route(), session.task()}, std::move(message)});
}

void Service::AddValues(const PartHeader& part, Message& message) {
  const size_t floats = FloatsOf(part.pull);
  if (floats == 0) return;
  const std::span<const float> values = store_.Values(part.block);
  const bool whole = floats == values.size();
  // A hold on the block for the sake of a few values would cost the next update a copy of it all.
  const bool copy = floats * sizeof(float) <= kAlwaysCopiedBytes || part.pull.size() > 1 ||
                    part.values != WireFloat::kFloat32 ||
                    (!whole && store_.ChangesOften(part.block));
  if (part.values != WireFloat::kFloat32) store_.ExpectFit(part.block, part.pull, part.values);
  if (copy) {
    message.unwritten = {floats * SizeOf(part.values),
                         [this, &part](void* to) { Copy(store_.Values(part.block), part, to); }};
  } else {
    message.payload = ReferenceTo(store_.Hold(part.block), part.pull.front());
  }
}

Reply Service::ReplyTo(const Request& request) const {
  Reply reply;
  reply.operation = request.operation;
  reply.step = step_;
  switch (request.operation) {
    case Operation::kHello:
    case Operation::kGoodbye:
    case Operation::kLocal:
      break;
    case Operation::kCreate:
    case Operation::kOpen:
      reply.store = store_id_;
      reply.update = ToString(mode_);
      reply.sums_rows = sums_rows_;
      reply.moves_all_rows = tables_.moves_all_rows();
      break;
    case Operation::kExchange:
    case Operation::kAssign:
    case Operation::kRows:
      return ReplyTo(request.part, request.operation);
  }
  return reply;
}

Reply Service::ReplyTo(const PartHeader& part, Operation operation) const {
  Reply reply;
  reply.operation = operation;
  reply.step = step_;
  reply.number = part.number;
  reply.sequence = part.sequence;
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
