#include "runtime/ps/service/answer_writer.h"

#include <utility>

namespace tfdist::runtime {
namespace {

// Up to here a copy costs less than what keeping a version costs.
constexpr size_t kAlwaysCopiedBytes = 4096;

void Copy(std::span<const float> values, const PartHeader& part, void* into) {
  auto* to = static_cast<char*>(into);
  for (const Range& range : part.pull) {
    ToWire(values.subspan(range.offset, range.count), part.values, to);
    to += range.count * SizeOf(part.values);
  }
}

zmq::message_t ReferenceTo(Version& version, const Range& range) {
  return {version.values().data() + range.offset, range.count * sizeof(float),
          [](void*, void* held) { static_cast<Version*>(held)->LetGo(); }, &version};
}

}  // namespace

void SetRefusal(const Refusal& refusal, Reply& reply) {
  reply.status = Status::kRefused;
  reply.refusal = refusal.kind();
  reply.error = refusal.cause();
  reply.remedy = refusal.remedy();
}

Reply AnswerWriter::ReplyAbout(Operation operation) const {
  Reply reply;
  reply.operation = operation;
  reply.step = model_.step();
  reply.queue = counters_.queue;
  reply.held = counters_.held;
  reply.idle_microseconds = counters_.idle_microseconds;
  reply.is_over = counters_.is_over;
  return reply;
}

Reply AnswerWriter::ReplyTo(const Request& request) const {
  Reply reply = ReplyAbout(request.operation);
  switch (request.operation) {
    case Operation::kHello:
    case Operation::kGoodbye:
    case Operation::kLocal:
    case Operation::kEnd:
      break;
    case Operation::kCreate:
    case Operation::kOpen:
      model_.Describe(reply);
      break;
    case Operation::kExchange:
    case Operation::kAssign:
    case Operation::kRows:
      return ReplyTo(request.part, request.operation);
    case Operation::kSave:
    case Operation::kRestore:
      reply.sequence = request.checkpoint.id;
      reply.number = static_cast<uint32_t>(request.checkpoint.phase);
      break;
  }
  return reply;
}

Reply AnswerWriter::ReplyTo(const PartHeader& part, Operation operation) const {
  Reply reply = ReplyAbout(operation);
  reply.number = part.number;
  reply.sequence = part.sequence;
  return reply;
}

Outgoing AnswerWriter::To(const Peer& peer, const Reply& reply) {
  return {peer, {Encode(reply), {}}};
}

void AnswerWriter::Refuse(const Peer& peer, const Request& request, const Refusal& why,
                          Outbound& replies) {
  ++counters_.refused;
  Reply reply = ReplyTo(request);
  SetRefusal(why, reply);
  replies.push_back(To(peer, reply));
}

void AnswerWriter::AddPart(const PartHeader& part, TrainerState& trainer, Outbound& replies) {
  Reply reply = ReplyTo(part, Operation::kExchange);
  reply.local_step = trainer.LocalStep(model_.LocalStepOf(trainer.task()));
  Message message;
  message.place = part.place;
  try {
    AddValues(part, message);
  } catch (const Refusal& refusal) {  // a push that came along is applied all the same
    SetRefusal(refusal, reply);
  }
  message.header = Encode(reply);
  replies.push_back({{trainer.route(), trainer.task()}, std::move(message)});
}

void AnswerWriter::AddRows(const PartHeader& part, RowSections rows, TrainerState& trainer,
                           Outbound& replies) {
  Reply reply = ReplyTo(part, Operation::kRows);
  reply.local_step = trainer.LocalStep(model_.LocalStepOf(trainer.task()));
  Message message{Encode(reply), {}};
  const size_t bytes = TableStore::FloatsPulled(rows) * sizeof(float);
  if (bytes > 0) {
    message.unwritten = {
        bytes, [this, rows](void* to) { model_.tables().Pull(rows, static_cast<float*>(to)); }};
  }
  for (const TableStore::Section& section : rows) counters_.pulled_rows += section.pull.size();
  replies.push_back({{trainer.route(), trainer.task()}, std::move(message)});
}

void AnswerWriter::AddHeld(const WantedPart& wanted, TrainerState& trainer, Outbound& replies) {
  if (wanted.operation == Operation::kRows) {
    AddRows(wanted.part, model_.tables().Read(wanted.part.rows, wanted.rows), trainer, replies);
  } else {
    AddPart(wanted.part, trainer, replies);
  }
  replies.back().message.Write();
}

void AnswerWriter::AddValues(const PartHeader& part, Message& message) {
  const size_t floats = FloatsOf(part.pull);
  if (floats == 0) return;
  VariableStore& store = model_.store();
  const bool whole = floats == store.Values(part.block).size();
  // A hold on the block for the sake of a few values would cost the next update a copy of it all.
  const bool copy = floats * sizeof(float) <= kAlwaysCopiedBytes || part.pull.size() > 1 ||
                    part.values != WireFloat::kFloat32 ||
                    (!whole && store.ChangesOften(part.block));
  if (part.values != WireFloat::kFloat32) store.ExpectFit(part.block, part.pull, part.values);
  if (copy) {
    message.unwritten = {floats * SizeOf(part.values),
                         [&store, &part](void* to) { Copy(store.Values(part.block), part, to); }};
  } else {
    message.payload = ReferenceTo(store.Hold(part.block), part.pull.front());
  }
}

}  // namespace tfdist::runtime
