#include "runtime/bench/harness.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <memory>
#include <new>
#include <stdexcept>

#include "base/clock.h"
#include "runtime/common/memory.h"

namespace tfdist::runtime::bench {
namespace {

using std::chrono::duration;
using std::chrono::duration_cast;
using std::chrono::nanoseconds;

constexpr double kWarmUpSeconds = 0.2;

Shared& NewShared() {
  void* memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("mmap");
  return *new (memory) Shared{};
}

template <typename Main>
pid_t Fork(Main main) {
  std::fflush(stdout);
  const pid_t pid = fork();
  if (pid < 0) throw std::runtime_error("fork");
  if (pid > 0) return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  KeepFreedMemory();  // for every kind of exchange alike
  try {
    main();
    _exit(0);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "a measured process: %s\n", error.what());
    _exit(1);
  }
}

double CpuSeconds(pid_t pid) {
  clockid_t clock{};
  timespec time{};
  if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &time) != 0) {
    throw std::runtime_error("the CPU time of a process");
  }
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double CpuSeconds(const std::vector<pid_t>& pids) {
  double seconds = 0;
  for (const pid_t pid : pids) seconds += CpuSeconds(pid);
  return seconds;
}

// Calls for `seconds`, then the ends of those under way; their number.
uint64_t Call(const Case& the_case, Exchange& exchange, double seconds,
              std::vector<uint64_t>* latencies_ns) {
  const auto begin = SystemClock().Now();
  uint64_t begun = 0;
  uint64_t ended = 0;
  auto now = begin;
  while (duration<double>(now - begin).count() < seconds) {
    const auto called = now;
    exchange.Begin(begun++ % static_cast<size_t>(the_case.buffers));
    if (begun - ended == static_cast<uint64_t>(the_case.window)) {
      exchange.EndOldest();
      ++ended;
    }
    now = SystemClock().Now();
    if (latencies_ns != nullptr && the_case.window == 1) {
      latencies_ns->push_back(
          static_cast<uint64_t>(duration_cast<nanoseconds>(now - called).count()));
    }
  }
  for (; ended < begun; ++ended) exchange.EndOldest();
  return begun;
}

void Work(const Case& the_case, Shared& shared, Exchange& exchange, int worker) {
  Call(the_case, exchange, std::min(kWarmUpSeconds, the_case.seconds), nullptr);
  std::vector<uint64_t> latencies_ns;
  ++shared.ready;
  while (!shared.go) sched_yield();
  const auto begin = SystemClock().Now();
  shared.calls += Call(the_case, exchange, the_case.seconds, &latencies_ns);
  const auto taken =
      static_cast<uint64_t>(duration_cast<nanoseconds>(SystemClock().Now() - begin).count());
  uint64_t longest = shared.longest_ns;
  while (longest < taken && !shared.longest_ns.compare_exchange_weak(longest, taken)) {
  }
  if (worker == 0 && !latencies_ns.empty()) {
    std::sort(latencies_ns.begin(), latencies_ns.end());
    shared.median_ns = latencies_ns[latencies_ns.size() / 2];
  }
  ++shared.done;
  while (!shared.stop) usleep(1000);  // CPU time is read while all processes are there
}

void AwaitAll(const std::atomic<int>& count, int target, const std::vector<pid_t>& pids) {
  while (count < target) {
    for (const pid_t pid : pids) {
      if (waitpid(pid, nullptr, WNOHANG) != 0) throw std::runtime_error("a process has ended");
    }
    usleep(1000);
  }
}

}  // namespace

Sample Measure(const Case& the_case, const ServerMain& serve, const MakeExchange& make) {
  Shared& shared = NewShared();
  std::vector<pid_t> pids;
  for (int i = 0; i < the_case.servers; ++i) {
    pids.push_back(Fork([&] { serve(the_case, shared, i); }));
  }
  for (int i = 0; i < the_case.workers; ++i) {
    pids.push_back(Fork([&] {
      const std::unique_ptr<Exchange> exchange = make(the_case, shared, i);
      Work(the_case, shared, *exchange, i);
    }));
  }
  AwaitAll(shared.ready, the_case.workers, pids);
  const double cpu_before = CpuSeconds(pids);
  shared.go = true;
  AwaitAll(shared.done, the_case.workers, pids);
  const double cpu = CpuSeconds(pids) - cpu_before;
  shared.stop = true;
  for (const pid_t pid : pids) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
  const double gigabytes =
      1e-9 * static_cast<double>(shared.calls) * static_cast<double>(the_case.size_bytes);
  const double seconds = 1e-9 * static_cast<double>(shared.longest_ns);
  const Sample sample{.calls_per_second = static_cast<double>(shared.calls) / seconds,
                      .gigabytes_per_second = gigabytes / seconds,
                      .latency_us = 1e-3 * static_cast<double>(shared.median_ns),
                      .cpu_seconds_per_gigabyte = cpu / gigabytes};
  munmap(&shared, sizeof shared);
  return sample;
}

int PortOf(const Shared& shared, int server) {
  while (shared.ports[server] == 0) usleep(200);
  return shared.ports[server];
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace tfdist::runtime::bench
