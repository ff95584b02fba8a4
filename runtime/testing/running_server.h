// A parameter server on a thread of its own, with a real socket.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/unique_fd.h"
#include "runtime/server.h"
#include "runtime/testing/local_cluster.h"

namespace tfdist::runtime::testing {

class RunningServer {
 public:
  // Listens when this returns.
  RunningServer(const TfConfig& config, const std::optional<JobSecret>& secret,
                uint32_t attempt = 1,
                std::chrono::milliseconds lost_after = std::chrono::seconds(10))
      : RunningServer({.config = config,
                       .secret = secret,
                       .attempt = attempt,
                       .lost_after = lost_after,
                       .threads = ServerThreads()}) {}
  // What it says goes to Stop.
  explicit RunningServer(ServerOptions options)
      : stop_(eventfd(0, EFD_CLOEXEC)),
        server_(Told(std::move(options))),
        thread_([this] { server_.Run(stop_.get()); }) {}
  RunningServer(const RunningServer&) = delete;
  RunningServer& operator=(const RunningServer&) = delete;
  ~RunningServer() { Stop(); }

  // "ps:0 listens at ...", as it said when it began to run.
  [[nodiscard]] std::string WhereItListens() { return first_line_.get_future().get(); }

  // After Stop alone.
  [[nodiscard]] ServerCounters counters() const { return server_.counters(); }

  // What it said, from its first line to its last.
  const std::vector<std::string>& Stop() {
    if (thread_.joinable()) {
      eventfd_write(stop_.get(), 1);
      thread_.join();
    }
    return lines_;
  }

 private:
  ServerOptions Told(ServerOptions options) {
    options.say = [this](const std::string& line) {
      if (lines_.empty()) first_line_.set_value(line);
      lines_.push_back(line);
    };
    return options;
  }

  UniqueFd stop_;
  std::promise<std::string> first_line_;
  std::vector<std::string> lines_;  // read by others only after the thread has ended
  Server server_;
  std::thread thread_;
};

}  // namespace tfdist::runtime::testing
