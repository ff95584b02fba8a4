// A client's dealings with one server: greets it on every new connection, asks about the variables,
// sends requests (Outbox) and takes the answers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/client/outbox.h"
#include "runtime/client/request.h"
#include "runtime/client/server_facts.h"
#include "runtime/transport/connection.h"
#include "runtime/transport/messages.h"

namespace tfdist::runtime {

// One thread. Nothing here waits. Throws Refusal when the server does not let this trainer in, and
// Error(kRun) when it sends what it must not; what it refuses of a request is in the request.
class Link {
 public:
  // `name` is for texts: "ps:1 at 10.0.0.2:2223". `hello` is sent first on every connection; its
  // attempt and client are in every other message too. `values`: number format of dense variables.
  // `other_threads`: that this one must know of, or nothing is asked of it.
  Link(std::string name, std::unique_ptr<Connection> connection, Request hello,
       size_t bytes_under_way, WireFloat values, size_t other_threads);
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // kCreate or kOpen, which tells what later requests are about; kSave, kRestore or kEnd. None may
  // be pending.
  void Ask(Request question);
  [[nodiscard]] bool asking() const { return question_pending_; }
  // To the last kSave or kRestore: done, or refused.
  [[nodiscard]] const Reply& checkpoint_answer() const { return checkpoint_answer_; }
  // What the server has said so far.
  [[nodiscard]] const ServerFacts& facts() const { return facts_; }
  // From now on they are counted anew.
  void ForgetLoad() { facts_.longest_queue = facts_.most_held = 0; }
  // The server is there now; what was under way is sent again.
  void Connect(std::string name, std::unique_ptr<Connection> connection);
  // Tells the server, if it can, that no trainer needs to wait for this one.
  void SayGoodbye();

  // Begins a request; its parts are sent as soon as may be. There is at least one part.
  void Begin(std::shared_ptr<RequestState> state, Operation operation,
             std::vector<RequestPart> parts) {
    outbox_.Begin(std::move(state), operation, std::move(parts), *connection_);
  }
  // A gradient of the request is there now.
  void Release(const RequestState& state) { outbox_.Release(state); }
  [[nodiscard]] uint64_t requests_under_way() const { return outbox_.requests_under_way(); }

  // Sends what may be sent at once. Returns whether that was something.
  bool SendWhatMayBe();
  // Takes answers, then sends what may be sent. Returns whether it sent something; unless it did
  // the connection is ready to be polled.
  bool MoveOn();
  // Sees whether the connection was made or broke; due after every poll, before MoveOn.
  void FollowConnection();
  [[nodiscard]] bool connected() const { return connected_; }
  // For the caller that waits: it spins and polls.
  [[nodiscard]] Connection& connection() { return *connection_; }

  // What the request (nullptr: the server's next answer) waits for here: "connection", "handshake
  // failed: ...", "reply to step 12", "it waits for worker:3 (step 12)"; empty when nothing is
  // missing.
  [[nodiscard]] std::string WaitsFor(const RequestState* state) const;
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const LinkCounters& counters() const { return counters_; }

 private:
  bool SendDue();
  void TakeAnswers();
  void Take(const Message& message);
  void TakeHello();
  void TakeQuestionsAnswer();
  void TakeCheckpointAnswer();
  void ThrowIfRefused() const;
  [[nodiscard]] std::string WhatIsAsked() const;

  std::string name_;
  std::unique_ptr<Connection> connection_;
  bool connected_ = false;
  Request hello_;
  size_t other_threads_;
  bool hello_due_ = false;
  bool greeted_ = false;  // the server has answered the hello of this connection
  Request question_;
  bool question_pending_ = false;
  bool question_due_ = false;
  Reply checkpoint_answer_;
  ServerFacts facts_;
  Outbox outbox_;
  Reply reply_;  // these two are kept for their allocations
  Message incoming_;
  LinkCounters counters_;
};

}  // namespace tfdist::runtime
