#include "runtime/server.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "runtime/cluster.h"
#include "runtime/ps/listen_address.h"
#include "runtime/ps/service.h"
#include "runtime/shm/wake.h"
#include "runtime/transport/shm_listener.h"
#include "runtime/transport/zmq_listener.h"

namespace tfdist::runtime {
namespace {

using std::chrono::duration;
using std::chrono::steady_clock;

// After so many messages without a pause the server looks whether it is told to end.
constexpr uint64_t kMessagesBetweenLooks = 256;
// And after so many waits that were too short for a sleep.
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
  for (const TaskId& trainer : TrainersOf(cluster)) of_service.trainers.insert(ToString(trainer));
  if (const auto chief = ChiefOf(cluster)) of_service.chief = ToString(*chief);
  return of_service;
}

std::string ListenEndpoint(const ServerOptions& options) {
  const HostPort own = AddressOf(options.config.cluster, options.config.task);
  const ListenAddress listen = ChooseListenAddress(own, options.secret.has_value());
  if (!listen.remark.empty()) options.say(listen.remark);
  return listen.endpoint;
}

// Enough for trainers that come back before their last connection is seen to be gone.
size_t MaxLocals(const ServerOptions& options) {
  return options.shared_memory ? 2 * TrainersOf(options.config.cluster).size() : 0;
}

}  // namespace

class Server::Impl {
 public:
  explicit Impl(const ServerOptions& options)
      : say_(options.say),
        service_(OptionsOf(options)),
        listener_(std::make_unique<ZmqListener>(ListenEndpoint(options), Keys(options)),
                  MaxLocals(options), options.say) {
    say_(fmt::format("{} listens at {}, security {}", ToString(options.config.task),
                     listener_.Endpoint(), options.secret ? "curve" : "none"));
  }

  void Run(int stop_fd) {
    items_ = {{stop_fd, POLLIN, 0}};
    const auto begin = steady_clock::now();
    const double idle_before = idle_seconds_;
    while (items_[0].revents == 0) {
      const bool more = AnswerWhatHasArrived();
      Wait(more ? 0 : TickWhenDue());
    }
    busy_seconds_ += Since(begin) - (idle_seconds_ - idle_before);
    say_(ToString(counters()));
  }

  [[nodiscard]] ServerCounters counters() const {
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

  [[nodiscard]] std::string Endpoint() const { return listener_.Endpoint(); }

 private:
  static double Since(steady_clock::time_point begin) {
    return duration<double>(steady_clock::now() - begin).count();
  }

  // True when it left off with more to be answered.
  bool AnswerWhatHasArrived() {
    for (uint64_t i = 0; i < kMessagesBetweenLooks; ++i) {
      if (!listener_.Receive(peer_, message_)) {
        queue_ = 0;
        return false;
      }
      longest_queue_ = std::max(longest_queue_, ++queue_);
      replies_.clear();
      service_.Handle(peer_, message_, replies_);
      SendReplies();
    }
    return true;
  }

  void SendReplies() {
    for (Service::Outgoing& reply : replies_) {
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
  int TickWhenDue() {
    if (!service_.holds_answers()) {
      next_tick_.reset();
      return -1;
    }
    const auto now = steady_clock::now();
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

  void Wait(int timeout) {
    const auto begin = steady_clock::now();
    // Where something always comes in time it is seen now and then whether the server shall end.
    const bool spin = timeout != 0 && ++waits_ % kWaitsBetweenLooks != 0;
    if (!spin || !SpinForInput()) Sleep(timeout);
    idle_seconds_ += Since(begin);
  }

  bool SpinForInput() {
    return listener_.WorthSpinning() &&
           shm::SpinUntil(spin_habit_, [this] { return listener_.HasArrived(); });
  }

  void Sleep(int timeout) {
    items_.resize(1);
    if (!listener_.BeforePoll(items_)) timeout = 0;
    if (poll(items_.data(), items_.size(), timeout) < 0 && errno != EINTR) {
      throw Error(Phase::kInternal, WithErrno("poll", errno));
    }
    listener_.AfterPoll();
  }

  Say say_;
  Service service_;  // before the listener: messages that it still sends refer to the values
  ShmListener listener_;
  std::vector<pollfd> items_;  // first the one that tells to end
  shm::SpinHabit spin_habit_;
  uint64_t waits_ = 0;
  Peer peer_;
  Message message_;
  std::vector<Service::Outgoing> replies_;
  std::optional<steady_clock::time_point> next_tick_;
  uint64_t unread_ = 0;
  uint64_t queue_ = 0;
  uint64_t longest_queue_ = 0;
  double idle_seconds_ = 0;
  double busy_seconds_ = 0;
};

Server::Server(const ServerOptions& options) : impl_(std::make_unique<Impl>(options)) {}

Server::~Server() = default;

void Server::Run(int stop_fd) { impl_->Run(stop_fd); }

ServerCounters Server::counters() const { return impl_->counters(); }

std::string Server::Endpoint() const { return impl_->Endpoint(); }

std::string ToString(const ServerCounters& counters) {
  std::string text = fmt::format(
      "served: {} pulls, {} pushes, {} bytes received, {} bytes sent, {} refused", counters.pulls,
      counters.pushes, counters.received_bytes, counters.sent_bytes, counters.refused);
  const std::array<std::pair<uint64_t, const char*>, 9> seldom = {{
      {counters.local_bytes, "bytes through shared memory"},
      {counters.pulled_rows, "rows pulled"},
      {counters.pushed_rows, "rows pushed"},
      {counters.stale, "stale"},
      {counters.lost, "lost"},
      {counters.repeated, "repeated"},
      {counters.strangers, "strangers"},
      {counters.unread, "unread"},
      {counters.new_versions, "new versions"},
  }};
  for (const auto& [count, what] : seldom) {
    if (count > 0) text += fmt::format(", {} {}", count, what);
  }
  if (counters.held_seconds > 0) text += fmt::format(", held {:.1f} s", counters.held_seconds);
  return text + fmt::format(", longest queue {}, busy {:.1f} s, idle {:.1f} s",
                            counters.longest_queue, counters.busy_seconds, counters.idle_seconds);
}

}  // namespace tfdist::runtime
