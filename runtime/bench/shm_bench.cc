// What a message through shared memory costs, beside memcpy, a TCP socket pair and ZeroMQ over TCP,
// in one run: a process that asks and a process that answers. Absolute numbers move with the
// machine; the ratios, taken within each repetition, are what counts.
//
//   shm_bench [--repetitions 5] [--seconds 0.3] [--ring-kib 4096] [--kib 64,1024] [--busy]
//             [--latency | --throughput]
//
// latency: 4 KiB there and 4 KiB back, one at a time: the median of all round trips.
// throughput: payloads with 40 in flight (8 from 16 MiB on), each acknowledged; 10^9 bytes a
// second.
//   memcpy   from 40 buffers into 40 others (8 above 4 MiB), as push and pull have them
//   sum      only the reading that push does
//   push     read where it lies in the ring (summed up), given back; unread: given back at once
//   pull     copied out of the ring
// --busy: beside two processes that compute all the time.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>
#include <zmq.hpp>

#include "base/unique_fd.h"
#include "runtime/shm/offer.h"

namespace tfdist::runtime::shm {
namespace {

using Seconds = std::chrono::duration<double>;
using Buffer = std::vector<std::byte>;

struct Options {
  int repetitions = 5;
  double seconds = 0.3;
  size_t ring_kib = kDefaultRingBytes / 1024;
  std::vector<size_t> kib = {4, 16, 64, 256, 1024, 4096, 16384};
  bool busy = false;
  bool latency = false;
  bool throughput = false;
};

TimePoint Now() { return std::chrono::steady_clock::now(); }
TimePoint Deadline() { return Now() + std::chrono::seconds(60); }

double CpuSeconds(int who) {
  rusage usage{};
  getrusage(who, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

void Check(bool good, const char* what) {
  if (!good) throw std::runtime_error(what);
}

pid_t Fork(const std::function<void()>& body) {
  const pid_t pid = fork();
  Check(pid >= 0, "fork");
  if (pid != 0) return pid;
  try {
    body();
    _exit(0);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "shm_bench: %s\n", error.what());
    _exit(1);
  }
}

void Join(pid_t pid) {
  int status = 0;
  Check(waitpid(pid, &status, 0) == pid && status == 0, "a process failed");
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// --- what is measured
// -----------------------------------------------------------------------------

struct Result {
  double value = 0;               // us, or GB/s
  double cpu_seconds_per_gb = 0;  // of both processes
};

// Calls `once` for the given time, after a warm-up: median of its durations in microseconds.
Result MeasureLatency(double seconds, const std::function<void()>& once) {
  std::vector<double> durations;
  const TimePoint warm =
      Now() + std::chrono::duration_cast<TimePoint::duration>(Seconds(seconds / 5));
  while (Now() < warm) once();
  const TimePoint begin = Now();
  for (TimePoint last = begin; Seconds(last - begin).count() < seconds;) {
    once();
    const TimePoint now = Now();
    durations.push_back(Seconds(now - last).count() * 1e6);
    last = now;
  }
  return {Median(std::move(durations)), 0};
}

constexpr size_t kSmall = 4096;

// --- shared memory
// --------------------------------------------------------------------------------

void Receive(Connection& connection, size_t size, std::byte* into) {
  while (true) {
    const auto incoming = connection.TryReceive();
    if (!incoming) {
      Check(connection.Wait(Interest::kReadable, Deadline()) == WaitResult::kReady, "no message");
      continue;
    }
    Check(incoming->payload_bytes == size, "payload");
    if (size > 0) {
      Check(connection.Read({into, size}, Deadline()) == WaitResult::kReady, "cut short");
    }
    return;
  }
}

void Send(Connection& connection, std::span<const std::byte> payload) {
  static constexpr std::byte kHeader[24] = {};
  const std::span<const std::byte> pieces[] = {payload};
  Check(connection.Send(kHeader, pieces, Deadline()) == WaitResult::kReady, "not sent");
}

// Forks a client; its own end for this process.
Connection Serve(const Options& options, pid_t& client,
                 const std::function<void(Connection)>& body) {
  Offer offer(options.ring_kib * 1024);
  client = Fork([&] {
    Acceptance acceptance = AcceptOffer(offer.bytes(), Deadline());
    Check(acceptance.connection.has_value(), acceptance.reason.c_str());
    body(*std::move(acceptance.connection));
  });
  while (true) {
    if (auto connection = offer.TryAccept()) return *std::move(connection);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

Result ShmLatency(const Options& options) {
  pid_t client = 0;
  Connection connection = Serve(options, client, [](Connection own) {
    Buffer buffer(kSmall);
    while (true) {
      const WaitResult result = own.Wait(Interest::kReadable, Deadline());
      if (result == WaitResult::kPeerGone) return;
      Receive(own, kSmall, buffer.data());
      Send(own, buffer);
    }
  });
  Buffer buffer(kSmall);
  const Result result = MeasureLatency(options.seconds, [&] {
    Send(connection, buffer);
    Receive(connection, kSmall, buffer.data());
  });
  { const Connection closed = std::move(connection); }
  Join(client);
  return result;
}

// Reads every byte, as applying a gradient would.
void Sum(const std::byte* begin, size_t size, float& sum) {
  float parts[16] = {};
  const auto* numbers = reinterpret_cast<const float*>(begin);
  for (size_t i = 0; i + 16 <= size / sizeof(float); i += 16) {
    for (size_t k = 0; k < 16; ++k) parts[k] += numbers[i + k];
  }
  for (const float part : parts) sum += part;
}

enum class Consumer { kNothing, kSum, kCopy };

void Consume(Connection& connection, Consumer consumer, size_t size, Buffer& into, float& sum) {
  if (consumer == Consumer::kCopy) return Receive(connection, size, into.data());
  while (!connection.TryReceive()) {
    Check(connection.Wait(Interest::kReadable, Deadline()) == WaitResult::kReady, "no message");
  }
  while (connection.to_receive() > 0) {
    const auto piece = connection.Payload();
    const size_t count = std::min(piece.size(), size_t{64} * 1024);
    if (count == 0) {
      Check(connection.Wait(Interest::kReadable, Deadline()) == WaitResult::kReady, "cut short");
      continue;
    }
    if (consumer == Consumer::kSum) Sum(piece.data(), count, sum);
    connection.Release(count);
  }
}

size_t Buffers(size_t size) { return size > size_t{4} * 1024 * 1024 ? 8 : 40; }
constexpr uint64_t kEnd = 0xE0D;

volatile float sink;

// The client sends, this process consumes and acknowledges; `window` unacknowledged at most.
Result ShmThroughput(const Options& options, size_t size, Consumer consumer, size_t window) {
  pid_t client = 0;
  struct Shared {
    double wall;
    double cpu;
    uint64_t count;
  };
  auto* shared = static_cast<Shared*>(
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  Connection connection = Serve(options, client, [&](Connection own) {
    std::vector<Buffer> buffers(Buffers(size), Buffer(size, std::byte{1}));
    size_t in_flight = 0;
    uint64_t next = 0;
    const auto send = [&] {
      if (in_flight == window) {
        Receive(own, 0, nullptr);
        --in_flight;
      }
      Send(own, buffers[next++ % buffers.size()]);
      ++in_flight;
    };
    const auto drain = [&] {
      for (; in_flight > 0; --in_flight) Receive(own, 0, nullptr);
    };
    for (size_t i = 0; i < 2 * buffers.size(); ++i) send();
    drain();
    const double cpu = CpuSeconds(RUSAGE_SELF);
    const TimePoint begin = Now();
    uint64_t count = 0;
    while (Seconds(Now() - begin).count() < options.seconds) {
      send();
      ++count;
    }
    drain();
    *shared = {Seconds(Now() - begin).count(), CpuSeconds(RUSAGE_SELF) - cpu, count};
  });
  std::vector<Buffer> buffers(Buffers(size), Buffer(size));
  double cpu = 0;
  float sum = 0;
  for (uint64_t i = 0;; ++i) {
    if (i == 2 * buffers.size()) cpu = CpuSeconds(RUSAGE_SELF);  // the warm-up is over
    const WaitResult result = connection.Wait(Interest::kReadable, Deadline());
    if (result == WaitResult::kPeerGone) break;
    Consume(connection, consumer, size, buffers[i % buffers.size()], sum);
    Send(connection, {});
  }
  sink = sum;
  const double own_cpu = CpuSeconds(RUSAGE_SELF) - cpu;
  Join(client);
  const double gigabytes = 1e-9 * static_cast<double>(shared->count) * static_cast<double>(size);
  const Result result = {gigabytes / shared->wall, (shared->cpu + own_cpu) / gigabytes};
  munmap(shared, sizeof(Shared));
  return result;
}

Result Alone(const Options& options, size_t size, Consumer consumer) {
  std::vector<Buffer> from(Buffers(size), Buffer(size, std::byte{1}));
  std::vector<Buffer> into(Buffers(size), Buffer(size));
  float sum = 0;
  const auto once = [&](uint64_t i) {
    if (consumer == Consumer::kCopy) {
      std::memcpy(into[i % into.size()].data(), from[i % from.size()].data(), size);
      asm volatile("" ::: "memory");
    } else {
      Sum(from[i % from.size()].data(), size, sum);
    }
  };
  for (uint64_t i = 0; i < 2 * from.size(); ++i) once(i);
  const double cpu = CpuSeconds(RUSAGE_SELF);
  const TimePoint begin = Now();
  uint64_t count = 0;
  while (Seconds(Now() - begin).count() < options.seconds) once(count++);
  sink = sum;
  const double gigabytes = 1e-9 * static_cast<double>(count) * static_cast<double>(size);
  return {gigabytes / Seconds(Now() - begin).count(), (CpuSeconds(RUSAGE_SELF) - cpu) / gigabytes};
}

// --- TCP and ZeroMQ
// -------------------------------------------------------------------------------

void SendWhole(int fd, const Buffer& buffer) {
  Check(send(fd, buffer.data(), buffer.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(buffer.size()),
        "send");
}

bool ReceiveWhole(int fd, Buffer& buffer) {
  return recv(fd, buffer.data(), buffer.size(), MSG_WAITALL) == static_cast<ssize_t>(buffer.size());
}

Result TcpLatency(const Options& options) {
  const UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  Check(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), length) == 0, "bind");
  Check(listen(listener.get(), 1) == 0, "listen");
  getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &length);
  const int one = 1;
  const pid_t client = Fork([&] {
    const UniqueFd own(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    Check(connect(own.get(), reinterpret_cast<sockaddr*>(&address), length) == 0, "connect");
    setsockopt(own.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    for (Buffer buffer(kSmall); ReceiveWhole(own.get(), buffer);) SendWhole(own.get(), buffer);
  });
  UniqueFd connection(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  setsockopt(connection.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  Buffer buffer(kSmall);
  const Result result = MeasureLatency(options.seconds, [&] {
    SendWhole(connection.get(), buffer);
    Check(ReceiveWhole(connection.get(), buffer), "recv");
  });
  connection.Reset();
  Join(client);
  return result;
}

Result ZmqLatency(const Options& options) {
  auto* port =
      static_cast<std::atomic<int>*>(mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE,
                                          MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  const pid_t server = Fork([&] {
    zmq::context_t context;
    zmq::socket_t router(context, zmq::socket_type::router);
    router.bind("tcp://127.0.0.1:*");
    const std::string endpoint = router.get(zmq::sockopt::last_endpoint);
    port->store(std::stoi(endpoint.substr(endpoint.rfind(':') + 1)));
    while (true) {
      zmq::message_t route;
      zmq::message_t payload;
      (void)router.recv(route);
      (void)router.recv(payload);
      if (payload.size() == 0) break;
      router.send(route, zmq::send_flags::sndmore);
      router.send(payload, zmq::send_flags::none);
    }
  });
  Result result;
  {
    while (port->load() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    zmq::context_t context;
    zmq::socket_t dealer(context, zmq::socket_type::dealer);
    dealer.connect("tcp://127.0.0.1:" + std::to_string(port->load()));
    const Buffer buffer(kSmall);
    result = MeasureLatency(options.seconds, [&] {
      dealer.send(zmq::buffer(buffer), zmq::send_flags::none);
      zmq::message_t answer;
      (void)dealer.recv(answer);
    });
    dealer.send(zmq::message_t(), zmq::send_flags::none);
  }
  Join(server);
  munmap(port, sizeof *port);
  return result;
}

// --- the tables
// -----------------------------------------------------------------------------------

struct Case {
  std::string name;
  std::function<Result()> run;
};

std::string Spread(const std::vector<double>& values) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  char text[80];
  std::snprintf(text, sizeof text, "%9.3f [%8.3f - %8.3f]", Median(values), *low, *high);
  return text;
}

// All cases once per repetition, each beside the first one of the same repetition.
void RunTable(const std::vector<Case>& cases, int repetitions, const char* unit) {
  std::map<std::string, std::vector<double>> values;
  std::map<std::string, std::vector<double>> ratios;
  std::map<std::string, std::vector<double>> cpu;
  for (int i = 0; i < repetitions; ++i) {
    double base = 0;
    for (const Case& one : cases) {
      const Result result = one.run();
      if (base == 0) base = result.value;
      values[one.name].push_back(result.value);
      ratios[one.name].push_back(result.value / base);
      cpu[one.name].push_back(result.cpu_seconds_per_gb);
    }
  }
  for (const Case& one : cases) {
    std::printf("  %-18s %s %s   ratio %s   %6.3f CPU s/GB\n", one.name.c_str(),
                Spread(values[one.name]).c_str(), unit, Spread(ratios[one.name]).c_str(),
                Median(cpu[one.name]));
  }
  std::fflush(stdout);
}

void RunLatency(const Options& options) {
  std::printf("4 KiB there and back, ratio to TCP\n");
  RunTable({{"tcp", [&] { return TcpLatency(options); }},
            {"zmq dealer-router", [&] { return ZmqLatency(options); }},
            {"shm", [&] { return ShmLatency(options); }}},
           options.repetitions, "us");
}

void RunThroughput(const Options& options) {
  for (const size_t kib : options.kib) {
    const size_t size = kib * 1024;
    const size_t window = size >= (size_t{16} << 20) ? 8 : 40;
    std::printf("%zu KiB, ratio to memcpy\n", kib);
    RunTable(
        {{"memcpy", [&] { return Alone(options, size, Consumer::kCopy); }},
         {"sum", [&] { return Alone(options, size, Consumer::kSum); }},
         {"push, unread", [&] { return ShmThroughput(options, size, Consumer::kNothing, window); }},
         {"push", [&] { return ShmThroughput(options, size, Consumer::kSum, window); }},
         {"pull", [&] { return ShmThroughput(options, size, Consumer::kCopy, window); }},
         {"pull, one at a time", [&] { return ShmThroughput(options, size, Consumer::kCopy, 1); }}},
        options.repetitions, "GB/s");
  }
}

void Run(const Options& options) {
  std::vector<pid_t> busy;
  for (int i = 0; options.busy && i < 2; ++i) {
    busy.push_back(Fork([] {
      while (true) asm volatile("");
    }));
  }
  if (options.latency || !options.throughput) RunLatency(options);
  if (options.throughput || !options.latency) RunThroughput(options);
  for (const pid_t pid : busy) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
}

}  // namespace
}  // namespace tfdist::runtime::shm

int main(int argc, char** argv) {
  tfdist::runtime::shm::Options options;
  CLI::App app("Shared memory beside memcpy, TCP and ZeroMQ");
  app.add_option("--repetitions", options.repetitions)->check(CLI::PositiveNumber);
  app.add_option("--seconds", options.seconds, "of each measurement")->check(CLI::PositiveNumber);
  app.add_option("--ring-kib", options.ring_kib, "a power of two");
  app.add_option("--kib", options.kib, "payloads of the throughput")->delimiter(',');
  app.add_flag("--busy", options.busy, "beside two processes that compute all the time");
  app.add_flag("--latency", options.latency);
  app.add_flag("--throughput", options.throughput);
  CLI11_PARSE(app, argc, argv);
  try {
    tfdist::runtime::shm::Run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "shm_bench: %s\n", error.what());
    return 1;
  }
  return 0;
}
