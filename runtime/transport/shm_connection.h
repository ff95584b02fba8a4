// A connection that goes through shared memory where the server is on the same host, and over
// ZeroMQ where it is not. Once ZeroMQ's connection is made, it asks the server there (kLocal, with
// our host); a server on that host answers with an offer (shm/offer.h). What holds for ZeroMQ's
// connection, such as whose key it is, so holds for the memory too, and when it breaks, as it does
// when the server freezes, the memory is given up with it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/common/say.h"
#include "runtime/shm/offer.h"
#include "runtime/shm/ring_pair.h"
#include "runtime/transport/connection.h"

namespace tfdist::runtime {

class ShmConnection : public Connection {
 public:
  // `name` is for texts. `say` gets why there is no shared memory with a server on this host.
  // `shared`: memory that such a server maps as well; may be nullptr.
  // NextEvent throws Error(kRun) for a server of another version too.
  ShmConnection(std::string name, std::unique_ptr<Connection> remote, Say say,
                std::shared_ptr<const SharedMemory> shared = nullptr);

  bool Send(Message& message) override;
  bool HasRoomFor(size_t payload_bytes) override;
  [[nodiscard]] std::optional<uint64_t> PlaceOf(const void* bytes, size_t count) const override {
    return local_ ? local_->PlaceOf(bytes, count) : std::nullopt;
  }
  bool Receive(Message& into) override;
  Event NextEvent() override;
  [[nodiscard]] bool BreaksInHandshake() const override { return remote_->BreaksInHandshake(); }

  [[nodiscard]] bool BothWaysAtOnce() const override {
    return state_ == State::kLocal || remote_->BothWaysAtOnce();
  }

  [[nodiscard]] bool WorthSpinning() const override { return state_ == State::kLocal; }
  bool HasArrived() override;
  bool BeforePoll(std::vector<pollfd>& items) override;
  void AfterPoll() override;

 private:
  enum class State {
    kDown,     // no connection
    kAsking,   // for an offer
    kCalling,  // with the offer
    kRemote,   // messages go over ZeroMQ
    kLocal,    // and through shared memory
  };

  void Ask();
  void TakeOffer();
  void FinishCall();
  void StayRemote(const std::string& reason);
  bool EndRemote();
  bool EndLocal();
  template <typename Use>
  bool UseLocal(Use use);

  std::string name_;
  std::unique_ptr<Connection> remote_;
  Say say_;
  std::shared_ptr<const SharedMemory> shared_;
  State state_ = State::kDown;
  bool made_ = false;  // and not told yet
  std::optional<shm::Call> call_;
  std::unique_ptr<shm::RingPair> local_;
  bool local_gone_ = false;
  std::string local_error_;  // why it is gone; empty: the server is
  int local_breaks_ = 0;     // since ZeroMQ's connection was made
};

}  // namespace tfdist::runtime
