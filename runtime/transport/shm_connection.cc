#include "runtime/transport/shm_connection.h"

#include <utility>

#include "base/error.h"
#include "runtime/shm/host_id.h"
#include "runtime/transport/messages.h"
#include "runtime/transport/shm_messages.h"

namespace tfdist::runtime {
namespace {

// Of a memory that breaks again and again while ZeroMQ's connection holds.
constexpr int kMaxLocalBreaks = 3;
// More than most headers have.
constexpr size_t kUsualHeaderBytes = 1024;

}  // namespace

ShmConnection::ShmConnection(std::string name, std::unique_ptr<Connection> remote, Say say,
                             std::shared_ptr<const SharedMemory> shared)
    : name_(std::move(name)),
      remote_(std::move(remote)),
      say_(std::move(say)),
      shared_(std::move(shared)) {}

bool ShmConnection::Send(Message& message) {
  if (state_ == State::kRemote) return remote_->Send(message);
  return UseLocal([&] { return SendLocally(*local_, message); });
}

bool ShmConnection::HasRoomFor(size_t payload_bytes) {
  if (state_ == State::kRemote) return remote_->HasRoomFor(payload_bytes);
  return UseLocal([&] { return local_->HasRoomFor(kUsualHeaderBytes, payload_bytes); });
}

bool ShmConnection::Receive(Message& into) {
  if (state_ != State::kRemote) return UseLocal([&] { return ReceiveLocally(*local_, into); });
  while (remote_->Receive(into)) {
    if (!IsAbout(into.header, Operation::kLocal)) return true;
  }
  return false;
}

// What the server writes into the memory without sense breaks the connection, no more.
template <typename Use>
bool ShmConnection::UseLocal(Use use) {
  if (!local_) return false;
  try {
    return use();
  } catch (const Error& error) {
    if (error.phase() == Phase::kInternal) throw;
    local_gone_ = true;
    local_error_ = error.cause();
    return false;
  }
}

Connection::Event ShmConnection::NextEvent() {
  for (Event event = remote_->NextEvent(); event != Event::kNone; event = remote_->NextEvent()) {
    if (event == Event::kMade) {
      local_breaks_ = 0;
      Message old;  // answers on the connection before this one
      while (remote_->Receive(old)) {
      }
      Ask();
    } else if (EndRemote()) {
      return Event::kBroken;
    }
  }
  if (EndLocal()) return Event::kBroken;
  if (state_ != State::kRemote) TakeOffer();
  if (state_ == State::kCalling) FinishCall();
  return std::exchange(made_, false) ? Event::kMade : Event::kNone;
}

void ShmConnection::Ask() {
  const std::optional<std::string> host = shm::ThisHost();
  Request question;
  question.operation = Operation::kLocal;
  question.host = host.value_or("");
  Message message{Encode(question), {}};
  if (local_breaks_ > kMaxLocalBreaks) return StayRemote("it broke again and again");
  if (!host || !remote_->Send(message)) return StayRemote("");
  state_ = State::kAsking;
}

// Also drops what comes over ZeroMQ while shared memory is in use: signs of life.
void ShmConnection::TakeOffer() {
  Message message;
  while (remote_->Receive(message)) {
    if (state_ != State::kAsking) continue;
    Reply reply;
    Decode(message.header.to_string_view(), reply);  // tells a server of another version
    if (reply.operation != Operation::kLocal || reply.status != Status::kDone) continue;
    if (reply.offer.empty()) return StayRemote("");
    try {
      call_.emplace(reply.offer, shared_);
    } catch (const Error& error) {
      return StayRemote(error.cause());
    }
    state_ = State::kCalling;
  }
}

void ShmConnection::FinishCall() {
  std::optional<shm::Call::Result> result = call_->TryFinish();
  // Its end is the server's: it gives the offer up, or freezes and ZeroMQ's connection breaks.
  if (!result) return;
  if (!result->connection) return StayRemote(result->reason);
  if (result->connection->ring_bytes() < kLeastRingBytes) {
    return StayRemote("the server's rings do not hold every message");
  }
  call_.reset();
  local_ = std::make_unique<shm::RingPair>(*std::move(result->connection));
  local_gone_ = false;
  local_error_.clear();
  state_ = State::kLocal;
  made_ = true;
}

void ShmConnection::StayRemote(const std::string& reason) {
  call_.reset();
  state_ = State::kRemote;
  made_ = true;
  if (!reason.empty()) say_(name_ + " is on this host, but without shared memory: " + reason);
}

// Whether a connection that could be used is no more.
bool ShmConnection::EndRemote() {
  const bool usable = (state_ == State::kRemote || state_ == State::kLocal) && !made_;
  call_.reset();
  local_.reset();
  made_ = false;
  state_ = State::kDown;
  return usable;
}

// The same. What the server had written before it went is read first.
bool ShmConnection::EndLocal() {
  if (!local_ || !local_gone_ || UseLocal([&] { return local_->HasMessage(); })) return false;
  const bool usable = EndRemote();
  ++local_breaks_;
  if (!local_error_.empty()) say_(name_ + ": shared memory given up: " + local_error_);
  Ask();
  return usable;
}

bool ShmConnection::HasArrived() {
  return UseLocal([&] { return local_->Ready(); });
}

bool ShmConnection::BeforePoll(std::vector<pollfd>& items) {
  const bool wait = remote_->BeforePoll(items);
  if (call_) items.push_back({call_->fd(), POLLIN, 0});
  if (!local_) return wait;
  items.push_back({local_->bell_fd(), POLLIN, 0});
  return UseLocal([&] { return local_->ArmBell(); }) && !local_gone_ && wait;
}

void ShmConnection::AfterPoll() {
  remote_->AfterPoll();
  if (local_ && !local_->DisarmBell()) local_gone_ = true;
}

}  // namespace tfdist::runtime
