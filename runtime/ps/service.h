// What a parameter server answers: decides who may ask what, and turns requests into replies. Knows
// messages and variables, no sockets: `Handle` gets what arrived and adds what is to be sent. One
// thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "runtime/ps/held_answers.h"
#include "runtime/ps/session.h"
#include "runtime/ps/table_store.h"
#include "runtime/ps/update_policy.h"
#include "runtime/ps/variable_store.h"
#include "runtime/transport/listener.h"
#include "runtime/transport/messages.h"

namespace tfdist::runtime {

struct ServiceOptions {
  uint32_t attempt = 1;            // of the job
  std::set<std::string> trainers;  // who may ask: "master:0", "worker:1"
  std::string chief;               // who may create variables
  // A trainer whose connection is gone for so long is waited for no more.
  std::chrono::milliseconds lost_after{10'000};
  const Clock* clock = nullptr;  // the system's
};

struct ServiceCounters {
  uint64_t pulls = 0;       // requests for variables, however many parts they have
  uint64_t pushes = 0;      // applied, or counted into a mean; one sent again counts once
  uint64_t stale = 0;       // pushes dropped, all of them or in part
  uint64_t updates = 0;     // steps: a push applied, or a mean of several
  double held_seconds = 0;  // that trainers were held back, all together
  uint64_t lost = 0;        // times that a trainer was waited for no more
  uint64_t received_bytes = 0;
  uint64_t sent_bytes = 0;
  uint64_t refused = 0;
  uint64_t repeated = 0;  // parts of pushes that had been applied before
  uint64_t pulled_rows = 0;
  uint64_t pushed_rows = 0;  // applied
  uint64_t strangers = 0;    // messages of connections that had not said hello, dropped
};

class Service {
 public:
  explicit Service(ServiceOptions options);

  struct Outgoing {
    Peer to;
    // May refer to values of this service, which must outlive it. What is unwritten must be written
    // before the next Handle or Tick.
    Message message;
  };
  // Adds usually one reply. None for what waits for the variables, nor for a request of a later
  // attempt, which is meant for the server that follows this one, nor for what waits for other
  // trainers; several when others have waited, and when another process of the task is told that it
  // has lost its place.
  // A request that cannot be granted is answered with the reason, and changes nothing.
  void Handle(const Peer& peer, const Message& message, std::vector<Outgoing>& replies);

  // Some answer waits for other trainers: Tick is wanted every tick().
  [[nodiscard]] bool holds_answers() const { return !held_.empty(); }
  [[nodiscard]] std::chrono::milliseconds tick() const;
  // Adds, for those who wait, for whom; for the others, what shows whether they are still there;
  // and what may go on because somebody has been lost.
  void Tick(std::vector<Outgoing>& replies);
  // A message could not be sent there because the connection is gone.
  void Gone(const Peer& peer);

  // Of the server's other threads, where trainers ask this one.
  void SetPorts(std::vector<uint16_t> ports) { ports_ = std::move(ports); }

  [[nodiscard]] ServiceCounters counters() const;
  [[nodiscard]] const VariableStore& store() const { return store_; }
  [[nodiscard]] const TableStore& tables() const { return tables_; }

 private:
  struct Asked {  // what is being answered
    const Peer& peer;
    const Request& request;
    const Message& message;
  };

  void Answer(const Asked& asked, std::vector<Outgoing>& replies);
  void Hello(const Asked& asked, std::vector<Outgoing>& replies);
  void TurnAway(const Session& session, std::vector<Outgoing>& replies) const;
  void Declare(const Request& request);
  void Create(const Asked& asked, Session& session, std::vector<Outgoing>& replies);
  void Open(const Asked& asked, Session& session, std::vector<Outgoing>& replies);
  void Assign(const Asked& asked, std::vector<Outgoing>& replies);
  void Exchange(const Asked& asked, Session& session, std::vector<Outgoing>& replies);
  void AnswerThoseWhoWait(std::vector<Outgoing>& replies);

  void ExpectChief(const Session& session) const;
  void ExpectThisStore(const PartHeader& part) const;
  using RowSections = std::span<const TableStore::Section>;
  void Push(const Asked& asked, RowSections rows, Session& session);
  std::span<const float> GradientsIn(const Asked& asked);
  void ApplyOrSum(const Asked& asked, Session& session);
  void ApplyOrSumRows(const PartHeader& part, RowSections rows, Session& session);
  void GiveUpPush(uint64_t sequence, Session& session, std::vector<Outgoing>& replies);
  void FinishPart(const PartHeader& part, Session& session);
  void TakeStep();
  void CountStep();
  std::optional<uint64_t> Awaited(const PartHeader& part, Session& session);
  static WantedPart WantedBy(const Asked& asked, RowSections rows);
  void AnswerHeld(const WantedPart& wanted, Session& session, std::vector<Outgoing>& replies);
  void AnswerPart(const PartHeader& part, Session& session, std::vector<Outgoing>& replies);
  void AnswerRows(const PartHeader& part, RowSections rows, Session& session,
                  std::vector<Outgoing>& replies);
  void Join(Session& session);
  void Lose(Session& session);
  void Leave(Session& session);
  void Finish(Session& session);
  void AdmitThoseWhoMayGoOn(std::vector<Outgoing>& replies);
  void Notify(Session& session, TimePoint now, std::vector<Outgoing>& replies);
  [[nodiscard]] bool sums() const;
  [[nodiscard]] TimePoint Now() const;
  void AddValues(const PartHeader& part, Message& message);
  [[nodiscard]] Reply ReplyTo(const Request& request) const;
  [[nodiscard]] Reply ReplyTo(const PartHeader& part, Operation operation) const;
  void Refuse(const Peer& peer, const Request& request, const std::string& why,
              std::vector<Outgoing>& replies);

  ServiceOptions options_;
  VariableStore store_;
  TableStore tables_;
  bool sums_rows_ = false;
  UpdateMode mode_;
  std::unique_ptr<UpdatePolicy> policy_;  // null: asynchronous, or no variables yet
  HeldAnswers held_;
  std::vector<uint16_t> ports_;
  uint64_t store_id_;  // random: tells these variables from those of an earlier start
  uint64_t step_ = 0;
  ServiceCounters counters_;
  Request request_;                                   // kept for its allocations
  std::vector<float> aligned_;                        // the same, for values at odd addresses
  std::map<std::string, Session> sessions_;           // by task
  std::unordered_map<std::string, Session*> routes_;  // of the sessions that were begun
  struct Wanted {
    std::vector<TensorSpec> variables;
    std::vector<TablePart> tables;
  };
  std::map<std::string, Wanted> waiting_;  // by task: kOpen before the creation
};

}  // namespace tfdist::runtime
