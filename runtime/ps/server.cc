#include "runtime/server.h"

#include <fmt/format.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <exception>
#include <memory>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/thread_annotations.h"
#include "base/unique_fd.h"
#include "runtime/common/cluster.h"
#include "runtime/ps/listen_address.h"
#include "runtime/ps/server_thread.h"

namespace tfdist::runtime {
namespace {

ServerOptions Checked(ServerOptions options) {
  CheckServerThreads(options.threads);
  // Its threads speak one at a time.
  options.say = [say = options.say, mutex = std::make_shared<Mutex>()](const std::string& line) {
    const MutexLock lock(*mutex);
    say(line);
  };
  return options;
}

std::string ListenEndpoint(const ServerOptions& options) {
  const HostPort own = AddressOf(options.config.cluster, options.config.task);
  const ListenAddress listen = ChooseListenAddress(own, options.secret.has_value());
  if (!listen.remark.empty()) options.say(listen.remark);
  return listen.endpoint;
}

// "tcp://10.0.0.1:2223" -> "tcp://10.0.0.1:*"
std::string AtAnyPort(const std::string& endpoint) {
  return endpoint.substr(0, endpoint.rfind(':')) + ":*";
}

uint16_t PortOf(const std::string& endpoint) {
  return static_cast<uint16_t>(std::stoul(endpoint.substr(endpoint.rfind(':') + 1)));
}

ServerCounters SumOf(const ServerCounters& a, const ServerCounters& b) {
  ServerCounters sum = a;
  // A request goes to as many threads as hold something of it.
  for (const auto counter :
       {&ServerCounters::pulls, &ServerCounters::pushes, &ServerCounters::stale,
        &ServerCounters::updates, &ServerCounters::longest_queue}) {
    sum.*counter = std::max(a.*counter, b.*counter);
  }
  for (const auto counter :
       {&ServerCounters::lost, &ServerCounters::pulled_rows, &ServerCounters::pushed_rows,
        &ServerCounters::received_bytes, &ServerCounters::sent_bytes, &ServerCounters::refused,
        &ServerCounters::repeated, &ServerCounters::strangers, &ServerCounters::local_bytes,
        &ServerCounters::unread, &ServerCounters::new_versions}) {
    sum.*counter += b.*counter;
  }
  for (const auto seconds : {&ServerCounters::held_seconds, &ServerCounters::idle_seconds,
                             &ServerCounters::busy_seconds}) {
    sum.*seconds += b.*seconds;
  }
  return sum;
}

}  // namespace

class Server::Impl {
 public:
  explicit Impl(const ServerOptions& options)
      : options_(Checked(options)), failed_(eventfd(0, EFD_CLOEXEC)) {
    const std::string endpoint = ListenEndpoint(options_);
    threads_.push_back(std::make_unique<ServerThread>(options_, endpoint));
    std::vector<uint16_t> ports;
    for (size_t i = 1; i < options_.threads; ++i) {
      threads_.push_back(std::make_unique<ServerThread>(options_, AtAnyPort(endpoint)));
      ports.push_back(PortOf(threads_.back()->Endpoint()));
    }
    threads_.front()->SetPorts(std::move(ports));
    SayWhereItListens();
  }

  void Run(int stop_fd) {
    {
      std::vector<std::jthread> others;
      try {
        for (size_t i = 1; i < threads_.size(); ++i) {
          others.emplace_back([this, i, stop_fd] { RunOne(*threads_[i], stop_fd); });
        }
      } catch (const std::system_error& error) {
        Fail(std::make_exception_ptr(
            Error(Phase::kInternal, std::string("cannot start a thread: ") + error.what())));
      }
      RunOne(*threads_.front(), stop_fd);
    }
    RethrowFailure();
    options_.say(ToString(counters()));
  }

  [[nodiscard]] ServerCounters counters() const {
    ServerCounters sum;
    for (const auto& thread : threads_) sum = SumOf(sum, thread->counters());
    return sum;
  }

  [[nodiscard]] std::string Endpoint() const { return threads_.front()->Endpoint(); }

 private:
  void SayWhereItListens() const {
    std::string others;
    for (size_t i = 1; i < threads_.size(); ++i) {
      others += fmt::format("{}{}", i == 1 ? ", its other threads at " : ", ",
                            PortOf(threads_[i]->Endpoint()));
    }
    options_.say(fmt::format("{} listens at {}{}, security {}", ToString(options_.config.task),
                             Endpoint(), others, options_.secret ? "curve" : "none"));
  }

  void RunOne(ServerThread& thread, int stop_fd) {
    try {
      thread.Run(stop_fd, failed_.get());
    } catch (...) {
      Fail(std::current_exception());
    }
  }

  void RethrowFailure() {
    const MutexLock lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
  }

  // All end when one does.
  void Fail(std::exception_ptr why) {
    const MutexLock lock(mutex_);
    if (!failure_) failure_ = std::move(why);
    eventfd_write(failed_.get(), 1);
  }

  ServerOptions options_;
  std::vector<std::unique_ptr<ServerThread>> threads_;
  UniqueFd failed_;  // readable once a thread has failed
  Mutex mutex_;
  std::exception_ptr failure_ GUARDED_BY(mutex_);  // of the first thread that failed
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
