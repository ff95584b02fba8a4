// One measured case: servers and workers as processes on this machine, some time of warming up,
// then the timed part, which all workers begin together.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/transport/wire_float.h"

namespace tfdist::runtime::bench {

// kBothAtOnce: a push, and a pull that does not wait for it. Bare ZeroMQ alone has it.
enum class Operation { kPush, kPull, kPushPull, kBothAtOnce };

struct Case {
  Operation operation = Operation::kPush;
  size_t size_bytes = size_t{1} << 20;  // payload of a call, one way
  int servers = 1;
  int workers = 1;
  int window = 1;   // calls in flight of a worker
  int buffers = 1;  // distinct ones, used in turn; call i is about buffer i and server i % servers
  bool curve = false;
  bool shared_memory = false;  // with our own, on this host; else TCP like the others
  // The rate of a SlowLink, each way; 0: no such link. For one server.
  size_t link_bytes_per_second = 0;
  double seconds = 0.5;
  // Of our own exchange alone:
  std::string optimizer = "sgd:learning_rate=0.01";
  WireFloat values = WireFloat::kFloat32;  // as they travel
  size_t server_threads = 1;
  size_t bytes_under_way = 0;  // 0: the client's default
};

struct Sample {
  double calls_per_second = 0;          // of all workers
  double gigabytes_per_second = 0;      // the same as 10^9 bytes of payload one way
  double latency_us = 0;                // median of one call; window 1 only
  double cpu_seconds_per_gigabyte = 0;  // user and system, of all processes
};

// What a worker does. Calls end in the order in which they begin.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual void Begin(size_t call) = 0;
  virtual void EndOldest() = 0;
};

// What the processes of a case share.
struct Shared {
  std::atomic<int> ports[8];  // of the servers, once they listen
  std::atomic<int> ready;
  std::atomic<bool> go;
  std::atomic<int> done;
  std::atomic<bool> stop;
  std::atomic<uint64_t> calls;
  std::atomic<uint64_t> longest_ns;
  std::atomic<uint64_t> median_ns;  // of worker 0
};

// Serves until `shared.stop`, or until it is killed.
using ServerMain = std::function<void(const Case&, Shared& shared, int server)>;
using MakeExchange =
    std::function<std::unique_ptr<Exchange>(const Case&, Shared& shared, int worker)>;

Sample Measure(const Case& the_case, const ServerMain& serve, const MakeExchange& make);

// Waits until the server listens.
int PortOf(const Shared& shared, int server);

double Median(std::vector<double> values);

}  // namespace tfdist::runtime::bench
