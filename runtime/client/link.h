// A client's dealings with one server: greets it on every new connection, sends the parts of
// requests as far as they may be under way at a time, and again when the connection breaks, and
// takes the answers.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "runtime/client/request.h"
#include "runtime/transport/connection.h"
#include "runtime/transport/messages.h"

namespace tfdist::runtime {

struct LinkCounters {
  uint64_t sent_bytes = 0;
  uint64_t received_bytes = 0;
  uint64_t messages = 0;
  uint64_t sent_again = 0;
};

// One thread. Nothing here waits. Throws Refusal when the server does not let this trainer in, and
// Error(kRun) when it sends what it must not; what it refuses of a request is in the request.
class Link {
 public:
  // `name` is for texts: "ps:1 at 10.0.0.2:2223". `hello` is sent first on every connection; its
  // attempt and run are in every other message too. `values`: how those of dense variables travel.
  // `other_threads`: that this one must know of, or nothing is asked of it.
  Link(std::string name, std::unique_ptr<Connection> connection, Request hello,
       size_t bytes_under_way, WireFloat values, size_t other_threads);

  // kCreate or kOpen, which tells what later requests are about. None may be pending.
  void Ask(Request question);
  [[nodiscard]] bool asking() const { return question_pending_; }
  // An answer has told which variables there are, so that requests can be sent.
  [[nodiscard]] bool opened() const { return creation_ != 0; }
  // Each row of a push must be seen once, by the optimizer or in a mean. Holds until an answer
  // tells otherwise.
  [[nodiscard]] bool sums_rows() const { return sums_rows_; }
  // A push must come to all parts of a table that are there. Known once opened.
  [[nodiscard]] bool moves_all_rows() const { return moves_all_rows_; }
  // That answer was: the variables were not there before.
  [[nodiscard]] bool is_new() const { return is_new_; }
  // And: first values are wanted.
  [[nodiscard]] bool values_wanted() const { return values_wanted_; }
  // The server holds answers to pushes back for other trainers (UpdateMode): every push must go to
  // every server, for all count them. Known once opened.
  [[nodiscard]] bool holds_back() const { return holds_back_; }
  // Where the server's other threads listen, as its last hello said; nullopt before the first.
  [[nodiscard]] const std::optional<std::vector<uint16_t>>& ports() const { return ports_; }
  // The server is there now; what was under way is sent again.
  void Connect(std::string name, std::unique_ptr<Connection> connection);
  // Tells the server, if it can, that it need not wait for us.
  void SayGoodbye();

  // Begins a request; its parts are sent as soon as may be. There is at least one part.
  void Begin(std::shared_ptr<RequestState> state, Operation operation,
             std::vector<RequestPart> parts);
  // How far the newest request is ahead of the oldest that has not ended.
  [[nodiscard]] uint64_t requests_under_way() const { return next_sequence_ - Oldest(); }

  // Sends what may be sent at once.
  void SendWhatMayBe();
  // Takes answers, then sends what may be sent. Returns whether it sent something; unless it did
  // the connection is ready to be polled.
  bool MoveOn();
  // Sees whether the connection was made or broke; due after every poll, before MoveOn.
  void FollowConnection();
  [[nodiscard]] bool connected() const { return connected_; }
  // For whom waits: it spins and polls.
  [[nodiscard]] Connection& connection() { return *connection_; }

  // What the request (nullptr: the server's next answer) waits for here: "connection", "handshake
  // failed: ...", "reply to step 12", "it waits for worker:3 (step 12)"; empty when nothing is
  // missing.
  [[nodiscard]] std::string WaitsFor(const RequestState* state) const;
  [[nodiscard]] std::chrono::steady_clock::time_point last_answer() const { return last_answer_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const LinkCounters& counters() const { return counters_; }
  // For whom the server holds answers back, as last heard; empty when it does not.
  [[nodiscard]] const std::string& held_for() const { return held_for_; }
  // Updates that the server has applied, as last heard.
  [[nodiscard]] uint64_t step() const { return step_; }

 private:
  struct Begun {
    std::shared_ptr<RequestState> state;
    Operation operation = Operation::kExchange;
    std::vector<RequestPart> parts;
    bool is_push = false;
    uint64_t local_step = 0;
    size_t next = 0;  // no part before it waits to be sent
    size_t unanswered = 0;
  };

  void BeginOne(std::shared_ptr<RequestState> state, Operation operation, bool is_push,
                std::vector<RequestPart> parts);
  [[nodiscard]] bool FitsUnderWay(const std::vector<RequestPart>& parts) const;
  void BeginAnew();
  bool SendDue();
  bool Send(Message& message);
  bool SendParts();
  bool SendNextPart(uint64_t sequence, Begun& begun);
  Message MessageFor(uint64_t sequence, const Begun& begun, size_t number);
  [[nodiscard]] bool MayBeUnderWay(size_t bytes) const;

  void TakeAnswers();
  void Take(const Message& message);
  [[nodiscard]] WireFloat ValuesOf(const Begun& begun, const RequestPart& part) const;
  void TakeHello();
  void TakeQuestionsAnswer();
  void TakePart(const Message& message);
  void ThrowIfRefused() const;
  [[nodiscard]] Refusal RefusalOf(const Reply& reply) const;
  [[nodiscard]] uint64_t Oldest() const;

  std::string name_;
  std::unique_ptr<Connection> connection_;
  std::optional<std::vector<uint16_t>> ports_;
  bool connected_ = false;
  Request hello_;
  bool hello_due_ = false;
  bool greeted_ = false;  // the server has answered the hello of this connection
  Request question_;
  bool question_pending_ = false;
  bool question_due_ = false;
  uint64_t creation_ = 0;  // which variables requests are about; 0: not known yet
  bool values_wanted_ = false;
  bool holds_back_ = false;
  uint64_t local_step_ = 0;  // that the next gradients belong to
  std::string held_for_;
  bool sums_rows_ = true;
  bool moves_all_rows_ = false;
  bool is_new_ = false;

  std::map<uint64_t, Begun> begun_;  // by sequence
  std::deque<uint64_t> unsent_;      // sequences of requests with parts to send, taken in turn
  uint64_t next_sequence_ = 1;
  size_t bytes_limit_;
  WireFloat values_;
  size_t other_threads_;
  size_t bytes_under_way_ = 0;
  size_t messages_under_way_ = 0;

  Request outgoing_;  // these three are kept for their allocations
  Reply reply_;
  Message incoming_;
  uint64_t step_ = 0;
  std::chrono::steady_clock::time_point last_answer_{};
  LinkCounters counters_;
};

}  // namespace tfdist::runtime
