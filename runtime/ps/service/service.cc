#include "runtime/ps/service/service.h"

#include <algorithm>
#include <limits>
#include <new>
#include <string>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/checkpoint/shard_set.h"

namespace tfdist::runtime {
namespace {

const SystemClock kSystemClock;

Refusal Replaced(const std::string& task) {
  return {RefusalKind::kReplaced, "another process has taken the place of " + task,
          "start each task once"};
}

// What the layers below say of a request that they cannot read or carry out.
Refusal Invalid(const Error& error) {
  return {RefusalKind::kInvalid, error.cause(), error.remedy()};
}

}  // namespace

Service::Service(ServiceOptions options)
    : chief_(std::move(options.chief)),
      clock_(options.clock != nullptr ? *options.clock : kSystemClock),
      trainers_(options.attempt, std::move(options.trainers)),
      answers_(model_, counters_),
      members_(model_, trainers_, answers_, counters_, clock_, options.lost_after),
      push_pull_(model_, answers_, members_, counters_),
      checkpoints_(std::move(options.checkpoints)),
      first_values_(std::move(options.first_values)),
      saver_(checkpoints_) {}

void Service::Handle(const Peer& peer, const Message& message, Outbound& replies) {
  counters_.received_bytes += message.size_bytes();
  const size_t first = replies.size();
  try {
    Decode(message.header.to_string_view(), request_);
    Answer({peer, request_, message}, replies);
  } catch (const Refusal& refusal) {
    answers_.Refuse(peer, request_, refusal, replies);
  } catch (const Error& error) {
    answers_.Refuse(peer, request_, Invalid(error), replies);
  }
  members_.Admit(replies);
  for (size_t i = first; i < replies.size(); ++i) {
    counters_.sent_bytes += replies[i].message.size_bytes();
  }
}

void Service::SetLoad(uint64_t queue, double idle_seconds) {
  counters_.queue =
      static_cast<uint32_t>(std::min<uint64_t>(queue, std::numeric_limits<uint32_t>::max()));
  counters_.idle_microseconds = static_cast<uint64_t>(idle_seconds * 1e6);
}

void Service::Answer(const Asked& asked, Outbound& replies) {
  if (asked.request.operation == Operation::kHello) {
    Hello(asked, replies);
    return;
  }
  TrainerState* const known = trainers_.At(asked.peer.route);
  if (known == nullptr) {
    // Left over from a connection that broke: its sender says hello, then sends it again.
    ++counters_.strangers;
    return;
  }
  TrainerState& trainer = *known;
  if (asked.request.client != trainer.client() || asked.request.attempt != trainers_.attempt()) {
    throw Error(Phase::kRun, "message: not from the client that said hello");
  }
  if (model_.policy() != nullptr) trainer.notices = {};
  switch (asked.request.operation) {
    case Operation::kHello:
    case Operation::kLocal:
      break;
    case Operation::kGoodbye:
      members_.Finish(trainer);
      break;
    case Operation::kEnd:
      ExpectChief(trainer);
      counters_.is_over = true;
      members_.ReleaseAll(replies);
      replies.push_back(AnswerWriter::To(asked.peer, answers_.ReplyTo(asked.request)));
      break;
    case Operation::kCreate:
      ExpectChief(trainer);
      Create(asked, trainer, replies);
      break;
    case Operation::kOpen:
      Open(asked, trainer, replies);
      break;
    case Operation::kAssign:
      ExpectChief(trainer);
      Assign(asked, replies);
      break;
    case Operation::kSave:
      ExpectChief(trainer);
      Save(asked);
      break;
    case Operation::kRestore:
      ExpectChief(trainer);
      Restore(asked, trainer, replies);
      break;
    case Operation::kExchange:
    case Operation::kRows:
      push_pull_.Handle(asked, trainer, replies);
      break;
  }
}

void Service::Hello(const Asked& asked, Outbound& replies) {
  const Request& hello = asked.request;
  trainers_.ExpectPermitted(asked.peer, hello);
  if (hello.attempt > trainers_.attempt()) return;
  TrainerState& trainer = trainers_.Of(hello.task);
  if (trainer.IsPast(hello.client)) throw Replaced(hello.task);
  members_.Drop(trainer);  // it asks again, on this connection
  // Another process of that task: what the one before had to wait for is over.
  if (trainer.client() != hello.client) {
    if (trainer.route() != asked.peer.route) TurnAway(trainer, replies);
    members_.Leave(trainer);
  }
  trainers_.Connect(trainer, asked.peer.route, hello.client);
  waiting_.erase(hello.task);
  Reply reply = answers_.ReplyTo(hello);
  reply.ports = ports_;
  replies.push_back(AnswerWriter::To(asked.peer, reply));
}

// The process before, if it is still there, would wait for ever.
void Service::TurnAway(const TrainerState& trainer, Outbound& replies) const {
  if (!trainers_.IsConnected(trainer)) return;
  Reply reply;
  reply.step = model_.step();
  SetRefusal(Replaced(trainer.task()), reply);
  replies.push_back(AnswerWriter::To({trainer.route(), trainer.task()}, reply));
}

void Service::ExpectChief(const TrainerState& trainer) const {
  if (trainer.task() == chief_) return;
  throw Refusal(RefusalKind::kNotPermitted, "variables are created by " + chief_, kSameJob);
}

void Service::Create(const Asked& asked, TrainerState& trainer, Outbound& replies) {
  const bool is_new = !model_.created();
  counters_.is_over = false;  // a chief that comes back trains on
  try {
    model_.Declare(asked.request, trainers_.trainers());
  } catch (const std::bad_alloc&) {
    throw Refusal(RefusalKind::kNoRoom, "this server has not enough memory for these variables",
                  "more servers, which then hold less each, or a smaller model");
  }
  Reply reply = answers_.ReplyTo(asked.request);
  reply.local_step = trainer.LocalStep(model_.LocalStepOf(trainer.task()));
  reply.is_new = is_new;
  if (!model_.created()) reply.status = Status::kValuesWanted;
  replies.push_back(AnswerWriter::To(asked.peer, reply));
  if (model_.created()) AnswerAllOpen(replies);  // a server without variables has no values
}

void Service::Open(const Asked& asked, TrainerState& trainer, Outbound& replies) {
  trainer.has_asked = true;
  if (model_.created()) {
    AnswerOpen(asked.peer, asked.request, trainer, replies);
  } else {
    waiting_[trainer.task()] = asked.request;
  }
}

void Service::AnswerOpen(const Peer& peer, const Request& open, TrainerState& trainer,
                         Outbound& replies) {
  model_.ExpectSame(open.variables, open.tables);
  Reply reply = answers_.ReplyTo(open);
  reply.local_step = trainer.LocalStep(model_.LocalStepOf(trainer.task()));
  replies.push_back(AnswerWriter::To(peer, reply));
}

void Service::AnswerAllOpen(Outbound& replies) {
  for (const auto& [task, open] : std::exchange(waiting_, {})) {
    TrainerState& trainer = trainers_.Of(task);
    const Peer peer{trainer.route(), task};
    try {
      AnswerOpen(peer, open, trainer, replies);
    } catch (const Refusal& refusal) {
      answers_.Refuse(peer, open, refusal, replies);
    }
  }
}

void Service::Assign(const Asked& asked, Outbound& replies) {
  const bool complete = push_pull_.Assign(asked);
  replies.push_back(AnswerWriter::To(asked.peer, answers_.ReplyTo(asked.request)));
  if (complete) AnswerAllOpen(replies);
}

// Answered by AnswerSave, once it is written.
void Service::Save(const Asked& asked) {
  const CheckpointPart& part = asked.request.checkpoint;
  if (saver_.busy() && saver_.id() == part.id) return;  // asked again, on another connection
  if (saver_.busy()) throw Refusal(RefusalKind::kNotSaved, "the last checkpoint is being written");
  if (checkpoints_.empty()) {
    throw Refusal(RefusalKind::kNotSaved, "this server has no folder for checkpoints",
                  "give every task of the job the same --checkpoint-dir");
  }
  if (!model_.created()) throw Refusal(RefusalKind::kVariablesLost, "there are no variables here");
  ShardInfo info;
  info.id = part.id;
  try {
    std::vector<TensorSource> tensors = model_.Snapshot(part.origins, info);
    saver_.Start(part, std::move(info), std::move(tensors));
  } catch (const std::bad_alloc&) {
    throw Refusal(RefusalKind::kNotSaved,
                  "this server has not enough memory for a copy of its tables");
  } catch (const std::system_error& error) {
    throw Refusal(RefusalKind::kNotSaved, std::string("cannot start a thread: ") + error.what());
  }
}

void Service::AnswerSave(Outbound& replies) {
  const std::optional<Saver::Result> result = saver_.Take();
  if (!result) return;
  const TrainerState& chief = trainers_.Of(chief_);
  Reply reply = answers_.ReplyAbout(Operation::kSave);
  reply.sequence = result->asked.id;
  reply.saved = result->facts;
  reply.saved_step = result->step;
  if (result->failure) SetRefusal({RefusalKind::kNotSaved, *result->failure}, reply);
  if (trainers_.IsConnected(chief)) {
    replies.push_back(AnswerWriter::To({chief.route(), chief_}, reply));
  }
}

void Service::Restore(const Asked& asked, TrainerState& trainer, Outbound& replies) {
  const CheckpointPart& part = asked.request.checkpoint;
  if (model_.created()) {
    if (loaded_ != part.id) throw Error(Phase::kRun, "the variables are there already");
  } else if (part.phase == RestorePhase::kLoad) {
    Load(part);
  } else if (loaded_ == part.id) {
    model_.SetRestored(part.values_only ? 0 : part.step);
    trainer.SetLocalStep(model_.LocalStepOf(trainer.task()));
  } else {
    throw Refusal(RefusalKind::kNotRestored, "this checkpoint has not been loaded");
  }
  Reply reply = answers_.ReplyTo(asked.request);
  reply.local_step = trainer.LocalStep(model_.LocalStepOf(trainer.task()));
  replies.push_back(AnswerWriter::To(asked.peer, reply));
  if (model_.created()) AnswerAllOpen(replies);
}

void Service::Load(const CheckpointPart& part) {
  loaded_.reset();
  const std::filesystem::path& folder = part.values_only ? first_values_ : checkpoints_;
  if (folder.empty()) {
    throw Refusal(RefusalKind::kNotRestored, "this server has no folder of checkpoints",
                  "give every task of the job the same --checkpoint-dir and --from-checkpoint");
  }
  ShardSet shards(CheckpointAt(folder, part.number), part.shards, part.shard);
  try {
    model_.Load(shards, part.origins, part.values_only);
  } catch (const Refusal&) {
    throw;
  } catch (const Error& error) {
    throw Refusal(RefusalKind::kNotRestored, error.cause(), error.remedy());
  } catch (const std::bad_alloc&) {
    throw Refusal(RefusalKind::kNoRoom, "this server has not enough memory for the checkpoint");
  }
  loaded_ = part.id;
}

ServiceCounters Service::counters() const {
  ServiceCounters counters = counters_;
  counters.updates = model_.step();
  counters.held_seconds = members_.held_seconds();
  return counters;
}

}  // namespace tfdist::runtime
