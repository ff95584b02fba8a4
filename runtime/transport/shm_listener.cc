#include "runtime/transport/shm_listener.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "runtime/shm/host_id.h"
#include "runtime/transport/messages.h"
#include "runtime/transport/shm_messages.h"

namespace tfdist::runtime {
namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;

// Who has an offer calls at once, or never.
constexpr seconds kOfferTime{30};
// ZeroMQ gets its turn after so many messages through memory.
constexpr int kLocalsInARow = 16;
// Answers that wait for room, as many as ZeroMQ would queue (zmq_listener.cc).
constexpr size_t kAnswersQueued = 2 * kMaxMessagesUnderWay + 32;
// How often to ask ZeroMQ whether a trainer is alive that does not read.
constexpr seconds kSignOfLife{2};

// No route of ZeroMQ's begins like that: its first byte is 0 (zmq_socket(3), ROUTER).
constexpr char kRoute[] = "memory-";

bool IsLocal(const std::string& route) { return route.starts_with(kRoute); }

}  // namespace

struct ShmListener::Local {
  shm::Connection connection;
  Peer peer;
  Peer remote;  // the same trainer over ZeroMQ
  std::deque<Message> queue;
  TimePoint asked;    // ZeroMQ, for a sign of life
  bool gone = false;  // what it sent before is still read
};

ShmListener::ShmListener(std::unique_ptr<Listener> remote, size_t max_locals, Say say)
    : remote_(std::move(remote)),
      max_locals_(max_locals),
      say_(std::move(say)),
      host_(shm::ThisHost()) {}

ShmListener::~ShmListener() = default;

bool ShmListener::Receive(Peer& from, Message& into) {
  if (since_remote_ < kLocalsInARow && ReceiveLocal(from, into)) {
    ++since_remote_;
    return true;
  }
  since_remote_ = 0;
  if (ReceiveRemote(from, into) || ReceiveLocal(from, into)) return true;
  SendQueued();
  return false;
}

bool ShmListener::ReceiveLocal(Peer& from, Message& into) {
  for (size_t i = 0; i < locals_.size(); ++i) {
    Local& local = *locals_[next_local_++ % locals_.size()];
    if (!UseLocal(local, [&] { return ReceiveLocally(local.connection, into); })) continue;
    local_bytes_ += into.size_bytes();
    from = local.peer;
    return true;
  }
  return false;
}

bool ShmListener::ReceiveRemote(Peer& from, Message& into) {
  while (remote_->Receive(from, into)) {
    if (!IsAbout(into.header, Operation::kLocal)) return true;
    Answer(from, into);
  }
  return false;
}

void ShmListener::Answer(const Peer& peer, const Message& question) {
  Reply reply;
  reply.operation = Operation::kLocal;
  try {
    Request request;
    Decode(question.header.to_string_view(), request);
    reply.offer = MakeOffer(peer, request.host);
  } catch (const Error& error) {
    say_("no shared memory with " + peer.task + ": " + error.cause());
  }
  Message message{Encode(reply), {}};
  remote_->Send(peer, message);
}

std::string ShmListener::MakeOffer(const Peer& peer, const std::string& host) {
  if (host_ != host || locals_.size() + offered_.size() >= max_locals_) return "";
  offered_.push_back({shm::Offer(), peer, steady_clock::now() + kOfferTime});
  return offered_.back().offer.bytes();
}

Listener::Delivery ShmListener::Send(const Peer& to, Message& message) {
  if (!IsLocal(to.route)) return remote_->Send(to, message);
  Local* local = Find(to.route);
  if (local == nullptr || !IsThere(*local)) return Delivery::kGone;
  const size_t bytes = message.size_bytes();
  if (local->queue.size() == kAnswersQueued) return Delivery::kUnread;
  if (!local->queue.empty() ||
      !UseLocal(*local, [&] { return SendLocally(local->connection, message); })) {
    local->queue.push_back(std::move(message));
  }
  local_bytes_ += bytes;
  return Delivery::kSent;
}

// A trainer that is stopped does not read and does not hang up; ZeroMQ's heartbeats notice it.
bool ShmListener::IsThere(Local& local) {
  if (local.gone) return false;
  if (UseLocal(local, [&] { return local.connection.AllRead(); })) return true;
  const TimePoint now = steady_clock::now();
  if (now - local.asked < kSignOfLife) return !local.gone;
  local.asked = now;
  Reply sign;
  sign.operation = Operation::kLocal;
  sign.status = Status::kWaiting;
  Message message{Encode(sign), {}};
  if (remote_->Send(local.remote, message) == Delivery::kGone) local.gone = true;
  return !local.gone;
}

ShmListener::Local* ShmListener::Find(const std::string& route) {
  const auto found = std::find_if(locals_.begin(), locals_.end(),
                                  [&](const auto& local) { return local->peer.route == route; });
  return found == locals_.end() ? nullptr : found->get();
}

// What a trainer writes into the memory without sense ends its connection, no more.
template <typename Use>
bool ShmListener::UseLocal(Local& local, Use use) {
  try {
    return use();
  } catch (const Error& error) {
    if (error.phase() == Phase::kInternal) throw;
    if (!std::exchange(local.gone, true)) {
      say_("shared memory with " + local.peer.task + " given up: " + error.cause());
    }
    return false;
  }
}

bool ShmListener::HasArrived() {
  return std::any_of(locals_.begin(), locals_.end(), [&](const auto& local) {
    return UseLocal(*local, [&] { return local->connection.Ready(); });
  });
}

bool ShmListener::BeforePoll(std::vector<pollfd>& items) {
  DropEnded();
  bool wait = remote_->BeforePoll(items);
  for (const Offered& offered : offered_) items.push_back({offered.offer.fd(), POLLIN, 0});
  for (const auto& local : locals_) {
    items.push_back({local->connection.bell_fd(), POLLIN, 0});
    wait = UseLocal(*local, [&] { return local->connection.ArmBell(); }) && !local->gone && wait;
  }
  return wait;
}

void ShmListener::AfterPoll() {
  remote_->AfterPoll();
  for (const auto& local : locals_) {
    if (!local->connection.DisarmBell()) local->gone = true;
  }
  AcceptCallers();
}

void ShmListener::SendQueued() {
  for (const auto& local : locals_) {
    std::deque<Message>& queue = local->queue;
    while (!queue.empty() &&
           UseLocal(*local, [&] { return SendLocally(local->connection, queue.front()); })) {
      queue.pop_front();
    }
  }
}

void ShmListener::AcceptCallers() {
  const TimePoint now = steady_clock::now();
  std::erase_if(offered_, [&](Offered& offered) {
    try {
      std::optional<shm::Connection> connection = offered.offer.TryAccept();
      if (!connection) return now >= offered.ends;
      const Peer peer{kRoute + std::to_string(routes_++), offered.peer.task};
      locals_.push_back(std::make_unique<Local>(
          Local{*std::move(connection), peer, std::move(offered.peer), {}, {}}));
    } catch (const Error& error) {
      say_("no shared memory with " + offered.peer.task + ": " + error.cause());
    }
    return true;
  });
}

// Those who are gone, once all that they sent is read.
void ShmListener::DropEnded() {
  std::erase_if(locals_, [&](const auto& local) {
    return local->gone && !UseLocal(*local, [&] { return local->connection.HasMessage(); });
  });
}

}  // namespace tfdist::runtime
