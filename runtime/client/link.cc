#include "runtime/client/link.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <utility>

#include "base/clock.h"
#include "base/error.h"

namespace tfdist::runtime {
Link::Link(std::string name, std::unique_ptr<Connection> connection, Request hello,
           size_t bytes_under_way, WireFloat values, size_t other_threads)
    : name_(std::move(name)),
      connection_(std::move(connection)),
      hello_(std::move(hello)),
      other_threads_(other_threads),
      outbox_(hello_, bytes_under_way, values, facts_) {}

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

void Link::SayGoodbye() {
  if (!connected_ || hello_due_ || !facts_.holds_back) return;
  Request goodbye;
  goodbye.operation = Operation::kGoodbye;
  goodbye.attempt = hello_.attempt;
  goodbye.client = hello_.client;
  Message message{Encode(goodbye), {}};
  SendCounted(*connection_, message, counters_);
}

bool Link::SendWhatMayBe() {
  const bool sent = SendDue();
  if (!connected_ || hello_due_ || !facts_.opened()) return sent;
  return outbox_.Send(*connection_, counters_) || sent;
}

bool Link::MoveOn() {
  TakeAnswers();
  return SendWhatMayBe();
}

void Link::FollowConnection() {
  while (true) {
    switch (connection_->NextEvent()) {
      case Connection::Event::kNone:
        return;
      case Connection::Event::kMade:
        connected_ = true;
        hello_due_ = true;
        greeted_ = false;
        question_due_ = question_pending_;
        outbox_.BeginAnew();
        break;
      case Connection::Event::kBroken:
        connected_ = false;
        break;
    }
  }
}

bool Link::SendDue() {
  if (!connected_ || !(hello_due_ || question_due_)) return false;
  bool sent = false;
  if (hello_due_) {
    Message message{Encode(hello_), {}};
    hello_due_ = !SendCounted(*connection_, message, counters_);
    sent = !hello_due_;
  }
  if (question_due_ && !hello_due_ && facts_.ports) {
    Message message{Encode(question_), {}};
    question_due_ = !SendCounted(*connection_, message, counters_);
    sent = sent || !question_due_;
  }
  return sent;
}

void Link::TakeAnswers() {
  while (connection_->Receive(incoming_)) {
    counters_.received_bytes += incoming_.size_bytes();
    Take(incoming_);
  }
}

void Link::Take(const Message& message) {
  Decode(message.header.to_string_view(), reply_);
  facts_.TakeAny(reply_);
  if (reply_.status == Status::kWaiting) {
    facts_.held_for = reply_.error;
    return;  // no answer: a caller that waits gives up in the end
  }
  facts_.last_answer = SystemClock().Now();
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
    case Operation::kSave:
    case Operation::kRestore:
      TakeCheckpointAnswer();
      break;
    case Operation::kEnd:
      if (asking() && question_.operation == Operation::kEnd) question_pending_ = false;
      break;
    case Operation::kExchange:
    case Operation::kAssign:
    case Operation::kRows:
      outbox_.Take(reply_, message.payload, name_);
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
  facts_.ports = reply_.ports;
  greeted_ = true;
}

void Link::TakeQuestionsAnswer() {
  if (!asking() || reply_.operation != question_.operation) return;  // asked twice, answered twice
  ThrowIfRefused();
  if (reply_.creation == 0) {
    throw Error(Phase::kRun, name_ + " answers without naming its variables");
  }
  question_pending_ = false;
  question_due_ = false;
  facts_.TakeOpened(reply_);
}

// A refusal is the caller's to judge: training goes on without a checkpoint.
void Link::TakeCheckpointAnswer() {
  if (!asking() || reply_.operation != question_.operation ||
      reply_.sequence != question_.checkpoint.id) {
    return;  // asked twice, answered twice; or asked by a process before this one
  }
  const auto phase = static_cast<uint32_t>(question_.checkpoint.phase);
  if (reply_.operation == Operation::kRestore && reply_.number != phase) return;
  question_pending_ = false;
  question_due_ = false;
  checkpoint_answer_ = reply_;
  if (reply_.operation == Operation::kRestore) facts_.local_step = reply_.local_step;
}

void Link::ThrowIfRefused() const {
  if (reply_.status == Status::kRefused) throw RefusalOf(reply_, name_);
}

std::string Link::WhatIsAsked() const {
  switch (question_.operation) {
    case Operation::kCreate:
      return "creation of the variables";
    case Operation::kSave:
      return "its shard of a checkpoint";
    case Operation::kRestore:
      return "values of a checkpoint";
    case Operation::kEnd:
      return "reply to the end of the training";
    default:
      return "variables, which the chief creates";
  }
}

std::string Link::WaitsFor(const RequestState* state) const {
  const RequestState* const request = outbox_.Find(state);
  if (request == nullptr && (!asking() || state != nullptr)) return "";
  if (!connected_) {
    return connection_->BreaksInHandshake()
               ? "handshake failed: do both sides have the same secret?"
               : "connection";
  }
  if (!greeted_) return "reply to hello (servers of older attempts do not answer)";
  if (asking()) return WhatIsAsked();
  if (!facts_.held_for.empty()) return "it waits for " + facts_.held_for;
  const uint64_t step = request->next_step;
  return step == 0 ? "values" : fmt::format("reply to step {}", step);
}

}  // namespace tfdist::runtime
