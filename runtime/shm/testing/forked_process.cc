#include "runtime/shm/testing/forked_process.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <thread>
#include <utility>

#include "base/clock.h"

namespace tfdist::runtime::shm::testing {
namespace {

int RunCaught(const std::function<int()>& body) {
  try {
    const int code = body();
    return ::testing::Test::HasFailure() ? 98 : code;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "forked process: %s\n", error.what());
    return 99;
  }
}

}  // namespace

ForkedProcess::ForkedProcess(const std::function<int()>& body) : pid_(fork()) {
  if (pid_ < 0) throw std::runtime_error("fork");
  if (pid_ == 0) _exit(RunCaught(body));
}

ForkedProcess::ForkedProcess(ForkedProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)) {}

ForkedProcess::~ForkedProcess() {
  if (pid_ < 0) return;
  Kill();
  waitpid(pid_, nullptr, 0);
}

void ForkedProcess::Kill() const { kill(pid_, SIGKILL); }

int ForkedProcess::Wait(std::chrono::seconds limit, const std::function<void()>& meanwhile) {
  const TimePoint deadline = In(limit);
  int status = 0;
  while (waitpid(pid_, &status, WNOHANG) == 0) {
    meanwhile();
    if (SystemClock().Now() > deadline) Kill();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  pid_ = -1;
  meanwhile();
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TimePoint In(std::chrono::milliseconds time) { return SystemClock().Now() + time; }

Call::Result CallWith(std::string_view offer, TimePoint deadline,
                      std::shared_ptr<const SharedMemory> shared) {
  Call call(offer, std::move(shared));
  while (true) {
    if (std::optional<Call::Result> result = call.TryFinish()) return *std::move(result);
    const int limit = PollTimeout(SystemClock().Now(), deadline);
    pollfd item = {call.fd(), POLLIN, 0};
    if (limit == 0 || poll(&item, 1, limit) <= 0) return {std::nullopt, "no answer in time"};
  }
}

std::optional<RingPair> WaitForClient(Offer& offer, TimePoint deadline) {
  while (true) {
    if (std::optional<RingPair> connection = offer.TryAccept()) return connection;
    const int limit = PollTimeout(SystemClock().Now(), deadline);
    pollfd item = {offer.fd(), POLLIN, 0};
    if (limit == 0 || poll(&item, 1, limit) <= 0) return std::nullopt;
  }
}

Served ServeForked(size_t ring_bytes, const std::function<int(RingPair)>& client,
                   const std::shared_ptr<const SharedMemory>& shared) {
  Offer offer(ring_bytes);
  ForkedProcess process([&] {
    Call::Result result = CallWith(offer.bytes(), In(std::chrono::seconds(30)), shared);
    if (!result.connection) throw std::runtime_error(result.reason);
    return client(*std::move(result.connection));
  });
  std::optional<RingPair> connection = WaitForClient(offer, In(std::chrono::seconds(30)));
  if (!connection) throw std::runtime_error("the client did not come");
  return {std::move(process), *std::move(connection), offer.bytes()};
}

}  // namespace tfdist::runtime::shm::testing
