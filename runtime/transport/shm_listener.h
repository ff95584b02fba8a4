// A listener that takes trainers on the same host through shared memory and all others over ZeroMQ.
// A client that was let in there asks for an offer (kLocal, see shm_connection.h) and calls with it; from
// then on its messages come from another route, under the name that its key has proved.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "runtime/common/say.h"
#include "runtime/shm/offer.h"
#include "runtime/transport/listener.h"

namespace tfdist::runtime {

class ShmListener : public Listener {
 public:
  // At most `max_locals` connections through memory at a time, 0: none; a later client stays with
  // ZeroMQ.
  // `say` gets what went wrong with one.
  ShmListener(std::unique_ptr<Listener> remote, size_t max_locals, Say say);
  ~ShmListener() override;

  bool Receive(Peer& from, Message& into) override;
  Delivery Send(const Peer& to, Message& message) override;
  [[nodiscard]] bool WorthSpinning() const override { return !locals_.empty(); }
  bool HasArrived() override;
  bool BeforePoll(std::vector<pollfd>& items) override;
  void AfterPoll() override;
  [[nodiscard]] std::string Endpoint() const override { return remote_->Endpoint(); }
  // Of messages that went through memory, both ways.
  [[nodiscard]] uint64_t local_bytes() const { return local_bytes_; }

 private:
  struct Local;
  struct Offered {
    shm::Offer offer;
    Peer peer;  // over ZeroMQ
    TimePoint ends;
  };

  bool ReceiveLocal(Peer& from, Message& into);
  bool ReceiveRemote(Peer& from, Message& into);
  void Answer(const Peer& peer, const Message& question);
  std::string OfferFor(const Peer& peer, const std::string& host);
  void SendQueued(Local& local);
  void AcceptCallers();
  void Replace(const std::string& task);
  void Complain(const Peer& peer, const std::string& why);
  void DropEnded();
  Local* Find(const std::string& route);
  bool IsThere(Local& local);
  template <typename Use>
  bool UseLocal(Local& local, Use use);

  std::unique_ptr<Listener> remote_;
  size_t max_locals_;
  Say say_;
  std::optional<std::string> host_;
  std::vector<Offered> offered_;
  std::vector<std::unique_ptr<Local>> locals_;
  size_t next_local_ = 0;     // whose turn it is
  size_t since_remote_ = 0;   // messages through memory since ZeroMQ was looked at
  bool more_remote_ = false;  // ZeroMQ was left with questions unread
  int complaints_ = 0;
  uint64_t routes_ = 0;  // given so far
  uint64_t local_bytes_ = 0;
};

}  // namespace tfdist::runtime
