#include "runtime/ps/server_thread.h"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "runtime/common/cluster.h"
#include "runtime/transport/zmq_listener.h"

namespace tfdist::runtime {
namespace {

using std::chrono::duration;

// After this many messages without a pause the server checks whether it shall end.
constexpr uint64_t kMessagesBetweenLooks = 256;
// The same, after this many waits that were too short for a sleep.
constexpr uint64_t kWaitsBetweenLooks = 64;

std::optional<ServerKeys> Keys(const ServerOptions& options) {
  if (!options.secret) return std::nullopt;
  const TfConfig& config = options.config;
  return KeysOfServer(*options.secret, config.task, TrainersOf(config.cluster));
}

ServiceOptions OptionsOf(const ServerOptions& options) {
  ServiceOptions of_service;
  of_service.attempt = options.attempt;
  of_service.lost_after = options.lost_after;
  const ClusterSpec& cluster = options.config.cluster;
  of_service.checkpoints = options.checkpoints;
  of_service.first_values = options.first_values;
  for (const TaskId& trainer : TrainersOf(cluster)) of_service.trainers.insert(ToString(trainer));
  if (const auto chief = ChiefOf(cluster)) of_service.chief = ToString(*chief);
  return of_service;
}

// Enough for trainers that come back before their last connection is seen to be gone.
size_t MaxLocals(const ServerOptions& options) {
  return options.shared_memory ? 2 * TrainersOf(options.config.cluster).size() : 0;
}

double Since(TimePoint begin) { return duration<double>(SystemClock().Now() - begin).count(); }

}  // namespace

ServerThread::ServerThread(const ServerOptions& options, const std::string& endpoint)
    : service_(OptionsOf(options)),
      listener_(std::make_unique<ZmqListener>(endpoint, Keys(options)), MaxLocals(options),
                options.say) {}

void ServerThread::Run(int stop_fd, int other_stop_fd) {
  items_ = {{stop_fd, POLLIN, 0}, {other_stop_fd, POLLIN, 0}, {service_.saved_fd(), POLLIN, 0}};
  const auto begin = SystemClock().Now();
  const double idle_before = idle_seconds_;
  while (items_[0].revents == 0 && items_[1].revents == 0) {
    AnswerWhatIsSaved();
    const bool more = AnswerWhatHasArrived();
    Wait(more ? 0 : TickWhenDue());
  }
  busy_seconds_ += Since(begin) - (idle_seconds_ - idle_before);
}

ServerCounters ServerThread::counters() const {
  const ServiceCounters served = service_.counters();
  ServerCounters counters;
  counters.pulls = served.pulls;
  counters.pushes = served.pushes;
  counters.stale = served.stale;
  counters.updates = served.updates;
  counters.held_seconds = served.held_seconds;
  counters.lost = served.lost;
  counters.pulled_rows = served.pulled_rows;
  counters.pushed_rows = served.pushed_rows;
  counters.received_bytes = served.received_bytes;
  counters.sent_bytes = served.sent_bytes;
  counters.refused = served.refused;
  counters.repeated = served.repeated;
  counters.strangers = served.strangers;
  counters.local_bytes = listener_.local_bytes();
  counters.unread = unread_;
  counters.new_versions = service_.store().new_versions();
  counters.longest_queue = longest_queue_;
  counters.idle_seconds = idle_seconds_;
  counters.busy_seconds = busy_seconds_;
  return counters;
}

// True when it left off with more to be answered.
bool ServerThread::AnswerWhatHasArrived() {
  for (uint64_t i = 0; i < kMessagesBetweenLooks; ++i) {
    if (!listener_.Receive(peer_, message_)) {
      queue_ = 0;
      return false;
    }
    longest_queue_ = std::max(longest_queue_, ++queue_);
    replies_.clear();
    service_.SetLoad(queue_, idle_seconds_);
    service_.Handle(peer_, message_, replies_);
    SendReplies();
  }
  return true;
}

void ServerThread::AnswerWhatIsSaved() {
  if (!service_.saving()) return;
  replies_.clear();
  service_.AnswerSave(replies_);
  SendReplies();
}

void ServerThread::SendReplies() {
  for (Outgoing& reply : replies_) {
    switch (listener_.Send(reply.to, reply.message)) {
      case Listener::Delivery::kSent:
        break;
      case Listener::Delivery::kUnread:
        ++unread_;
        break;
      case Listener::Delivery::kGone:
        service_.Gone(reply.to);
        break;
    }
  }
}

// While trainers wait for others, those are looked after. Returns the milliseconds until the next
// time, -1 for none.
int ServerThread::TickWhenDue() {
  if (!service_.holds_answers()) {
    next_tick_.reset();
    return -1;
  }
  const auto now = SystemClock().Now();
  if (!next_tick_) next_tick_ = now + service_.tick();
  if (now >= *next_tick_) {
    replies_.clear();
    service_.Tick(replies_);
    SendReplies();
    next_tick_ = now + service_.tick();
    return 0;  // a send can take the sign of a message that came meanwhile: receive again first
  }
  return PollTimeout(now, *next_tick_);
}

void ServerThread::Wait(int timeout) {
  const auto begin = SystemClock().Now();
  // Where something always comes in time it is seen now and then whether the server shall end.
  const bool spin = timeout != 0 && ++waits_ % kWaitsBetweenLooks != 0;
  if (!spin || !SpinForInput()) Sleep(timeout);
  idle_seconds_ += Since(begin);
}

bool ServerThread::SpinForInput() {
  return listener_.WorthSpinning() &&
         shm::SpinUntil(spin_habit_, [this] { return listener_.HasArrived(); });
}

void ServerThread::Sleep(int timeout) {
  items_.resize(3);
  if (!listener_.BeforePoll(items_)) timeout = 0;
  if (poll(items_.data(), items_.size(), timeout) < 0 && errno != EINTR) {
    throw Error(Phase::kInternal, WithErrno("poll", errno));
  }
  listener_.AfterPoll();
}

}  // namespace tfdist::runtime
