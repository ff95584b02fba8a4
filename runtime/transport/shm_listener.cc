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

// A client that has an offer calls at once, or never.
constexpr seconds kOfferTime{30};
// Questions that are answered, or not heard, without a look at anything else.
constexpr int kQuestionsInARow = 64;
// Of all peers together, so that none fills the log.
constexpr int kMaxComplaints = 20;
// How often to ask ZeroMQ whether a trainer is alive that does not read.
constexpr seconds kSignOfLife{2};

// ZeroMQ's own routes begin with 0 (zmq_socket(3), ROUTER). A peer may choose one like this for
// itself: it is not heard.
constexpr char kRoute[] = "memory-";

bool IsLocal(const std::string& route) { return route.starts_with(kRoute); }

}  // namespace

struct ShmListener::Local {
  shm::RingPair connection;
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
  // Each through memory has its turn, then ZeroMQ for all the others.
  if (since_remote_ < locals_.size() && ReceiveLocal(from, into)) {
    ++since_remote_;
    return true;
  }
  since_remote_ = 0;
  for (const auto& local : locals_) {
    SendQueued(*local);
    // Its answers and its memory are kept no longer than ZeroMQ knows it to be alive.
    if (!local->queue.empty()) (void)IsThere(*local);
  }
  return ReceiveRemote(from, into) || ReceiveLocal(from, into);
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
  more_remote_ = false;
  for (int i = 0; i < kQuestionsInARow; ++i) {
    if (!remote_->Receive(from, into)) return false;
    if (IsLocal(from.route)) continue;
    if (!IsAbout(into.header, Operation::kLocal)) return true;
    Answer(from, into);
  }
  more_remote_ = true;
  return false;
}

void ShmListener::Answer(const Peer& peer, const Message& question) {
  Reply reply;
  reply.operation = Operation::kLocal;
  try {
    Request request;
    Decode(question.header.to_string_view(), request);
    reply.offer = OfferFor(peer, request.host);
  } catch (const Error& error) {
    Complain(peer, error.cause());
  }
  Message message{Encode(reply), {}};
  remote_->Send(peer, message);
}

std::string ShmListener::OfferFor(const Peer& peer, const std::string& host) {
  if (host_ != host) return "";
  // A client that asks twice gets one offer; over another connection it never takes up the first.
  for (const Offered& offered : offered_) {
    if (offered.peer.route == peer.route) return offered.offer.bytes();
  }
  std::erase_if(offered_, [&](const Offered& offered) {
    return !peer.task.empty() && offered.peer.task == peer.task;
  });
  DropEnded();
  if (locals_.size() + offered_.size() >= max_locals_) return "";
  offered_.push_back({shm::Offer(), peer, SystemClock().Now() + kOfferTime});
  return offered_.back().offer.bytes();
}

Listener::Delivery ShmListener::Send(const Peer& to, Message& message) {
  if (!IsLocal(to.route)) return remote_->Send(to, message);
  Local* local = Find(to.route);
  if (local == nullptr || !IsThere(*local)) return Delivery::kGone;
  const size_t bytes = message.size_bytes();
  SendQueued(*local);
  if (local->queue.size() == kMaxAnswersQueued) return Delivery::kUnread;
  if (!local->queue.empty() ||
      !UseLocal(*local, [&] { return SendLocally(local->connection, message); })) {
    message.Write();
    local->queue.push_back(std::move(message));
  }
  local_bytes_ += bytes;
  return Delivery::kSent;
}

// A trainer that is stopped does not read and does not hang up; ZeroMQ's heartbeats notice it.
bool ShmListener::IsThere(Local& local) {
  if (local.gone) return false;
  if (UseLocal(local, [&] { return local.connection.AllRead(); })) return true;
  const TimePoint now = SystemClock().Now();
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
    if (!std::exchange(local.gone, true)) Complain(local.peer, error.cause());
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
  bool wait = remote_->BeforePoll(items) && !more_remote_;
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

// Not to one that is gone: it may have come again, and reads its values where these belong.
void ShmListener::SendQueued(Local& local) {
  if (local.gone) return;
  while (!local.queue.empty() &&
         UseLocal(local, [&] { return SendLocally(local.connection, local.queue.front()); })) {
    local.queue.pop_front();
  }
}

void ShmListener::AcceptCallers() {
  const TimePoint now = SystemClock().Now();
  std::erase_if(offered_, [&](Offered& offered) {
    try {
      std::optional<shm::RingPair> connection = offered.offer.TryAccept();
      if (!connection) return now >= offered.ends;
      Replace(offered.peer.task);
      const Peer peer{kRoute + std::to_string(routes_++), offered.peer.task};
      locals_.push_back(std::make_unique<Local>(
          Local{*std::move(connection), peer, std::move(offered.peer), {}, {}}));
    } catch (const Error& error) {
      Complain(offered.peer, error.cause());
    }
    return true;
  });
}

// A task that comes again has left its last connection, if nobody noticed yet.
void ShmListener::Replace(const std::string& task) {
  for (const auto& local : locals_) {
    if (!task.empty() && local->peer.task == task) local->gone = true;
  }
}

void ShmListener::Complain(const Peer& peer, const std::string& why) {
  if (++complaints_ > kMaxComplaints) return;
  const std::string who = peer.task.empty() ? "a trainer" : peer.task;
  say_("no shared memory with " + who + ": " + why);
}

// Connections whose client is gone, once all that it sent is read.
void ShmListener::DropEnded() {
  std::erase_if(locals_, [&](const auto& local) {
    return local->gone && !UseLocal(*local, [&] { return local->connection.HasMessage(); });
  });
}

}  // namespace tfdist::runtime
