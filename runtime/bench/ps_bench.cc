// How fast the runtime's calls are, beside what they cannot beat: the same exchange over bare
// ZeroMQ sockets and over a bare TCP connection, in the same run. Machines differ and are noisy;
// trust the ratios. scripts/bench ps runs it; --help lists the options.
//
// Each repetition measures all kinds of exchange of one case, one after the other; a ratio is that
// of one repetition. GB/s and CPU seconds are per 10^9 bytes of payload one way, the CPU seconds
// those of all processes. In every process freed memory is kept (KeepFreedMemory).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "runtime/bench/exchanges.h"
#include "runtime/bench/harness.h"
#include "runtime/common/memory.h"
#include "runtime/ps/store/finite.h"
#include "runtime/update/optimizer.h"

namespace tfdist::runtime::bench {
namespace {

const std::vector<std::string> kParts = {"throughput", "latency", "small",  "adam",  "values",
                                         "threads",    "cpu",     "memory", "duplex"};

constexpr size_t kKiB = 1024;
constexpr size_t kMiB = 1024 * kKiB;

struct Options {
  int repetitions = 5;
  double seconds = 0.5;
  std::vector<size_t> sizes = {4 * kKiB, 64 * kKiB, kMiB, 16 * kMiB, 256 * kMiB};
  std::vector<std::string> operations = {"push", "pull", "push+pull"};
  std::vector<int> layouts = {1, 2};  // servers, and as many workers
  std::vector<std::string> security = {"none", "curve"};
  size_t bytes_under_way = 0;
  size_t link_bytes_per_second = 125'000'000;
  std::vector<std::string> parts;
};

std::string SizeName(size_t bytes) {
  return bytes < kMiB ? fmt::format("{} KiB", bytes / kKiB) : fmt::format("{} MiB", bytes / kMiB);
}

Operation ParseOperation(const std::string& name) {
  if (name == "push") return Operation::kPush;
  return name == "pull" ? Operation::kPull : Operation::kPushPull;
}

// Calls in flight, and distinct buffers: enough to fill the connection.
int WindowFor(size_t size_bytes) {
  if (size_bytes >= 256 * kMiB) return 2;
  return size_bytes >= 16 * kMiB ? 8 : 40;
}

// median [min-max]
std::string Spread(const std::vector<double>& values, const char* format) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  const auto text = [&](double value) { return fmt::format(fmt::runtime(format), value); };
  return fmt::format("{} [{}-{}]", text(Median(values)), text(*least), text(*most));
}

// All repetitions of one kind of exchange.
struct Series {
  std::vector<Sample> samples;

  template <typename Member>
  [[nodiscard]] std::vector<double> All(Member member) const {
    std::vector<double> values;
    for (const Sample& sample : samples) values.push_back(sample.*member);
    return values;
  }
};

template <typename Member>
std::vector<double> Ratios(const Series& a, const Series& b, Member member) {
  std::vector<double> ratios;
  for (size_t i = 0; i < a.samples.size(); ++i) {
    ratios.push_back(a.samples[i].*member / b.samples[i].*member);
  }
  return ratios;
}

struct Compared {
  Series tcp;  // empty where it could block for ever
  Series zmq;
  Series own;
};

Sample MeasureOwn(const Case& the_case, int variables_per_call) {
  const Own own(the_case, variables_per_call);
  return Measure(
      the_case, [&](const Case& c, Shared& s, int i) { own.Serve(c, s, i); },
      [&](const Case& c, Shared& s, int i) { return own.Make(c, s, i); });
}

Compared Compare(const Case& the_case, int repetitions, int variables_per_call = 1) {
  // A bare socket that is written full in both directions blocks both sides.
  const bool tcp =
      !the_case.curve && (the_case.operation != Operation::kPushPull || the_case.window == 1);
  Compared compared;
  for (int i = 0; i < repetitions; ++i) {
    if (tcp) compared.tcp.samples.push_back(Measure(the_case, ServeTcp, MakeTcp));
    compared.zmq.samples.push_back(Measure(the_case, ServeZmq, MakeZmq));
    compared.own.samples.push_back(MeasureOwn(the_case, variables_per_call));
  }
  return compared;
}

void PrintRow(const std::string& name, const Compared& compared, double Sample::*member,
              const char* format) {
  const std::string tcp =
      compared.tcp.samples.empty() ? "-" : Spread(compared.tcp.All(member), format);
  fmt::print("{:<34} tcp {:<20} zmq {:<20} ours {:<20} ours/zmq {}\n", name, tcp,
             Spread(compared.zmq.All(member), format), Spread(compared.own.All(member), format),
             Spread(Ratios(compared.own, compared.zmq, member), "{:.2f}"));
  std::fflush(stdout);
}

void PrintBeside(const std::string& name, const std::string& peer_name, const Series& peer,
                 const Series& own, double Sample::*member, const char* format) {
  fmt::print("{:<44} {} {:<20} this {:<20} ratio {}\n", name, peer_name,
             Spread(peer.All(member), format), Spread(own.All(member), format),
             Spread(Ratios(own, peer, member), "{:.2f}"));
  std::fflush(stdout);
}

template <typename Run>
void ForEachCase(const Options& options, Run run) {
  for (const std::string& security : options.security) {
    for (const int count : options.layouts) {
      for (const size_t size : options.sizes) {
        for (const std::string& operation : options.operations) {
          Case the_case;
          the_case.operation = ParseOperation(operation);
          the_case.size_bytes = size;
          the_case.servers = count;
          the_case.workers = count;
          the_case.curve = security == "curve";
          the_case.seconds = options.seconds;
          the_case.bytes_under_way = options.bytes_under_way;
          the_case.buffers = WindowFor(size);
          run(the_case,
              fmt::format("{}x{} {} {} {}", count, count, security, SizeName(size), operation));
        }
      }
    }
  }
}

// What the server does with a push besides the transport: both passes over 1 MiB at a time, out of
// 40 MiB.
double BareApply(const Options& options) {
  using std::chrono::duration;
  constexpr size_t kFloats = kMiB / sizeof(float);
  std::vector<std::vector<float>> values(40, std::vector<float>(kFloats, 1.0F));
  const std::vector<std::vector<float>> gradients(40, std::vector<float>(kFloats, 1e-3F));
  const Optimizer sgd({.learning_rate = 0.01F});
  OptimizerState state = sgd.initial_state();
  std::vector<double> seconds_per_gigabyte;
  for (int i = 0; i < options.repetitions; ++i) {
    const auto begin = SystemClock().Now();
    size_t done = 0;
    while (duration<double>(SystemClock().Now() - begin).count() < options.seconds) {
      const size_t next = done++ % values.size();
      if (!AllFinite(gradients[next])) return 0;
      sgd.Apply(sgd.NextStep(state), {values[next], {}}, gradients[next]);
    }
    seconds_per_gigabyte.push_back(duration<double>(SystemClock().Now() - begin).count() /
                                   (1e-9 * static_cast<double>(done * kMiB)));
  }
  fmt::print("\nCheck and apply of 1 MiB with SGD, one thread: {} CPU s/GB\n",
             Spread(seconds_per_gigabyte, "{:.2f}"));
  return Median(seconds_per_gigabyte);
}

// Our CPU time beside what it may be: a quarter more than that of bare ZeroMQ and, where something
// is pushed, what checking and applying takes.
void PrintCpu(const Compared& compared, Operation operation, double apply) {
  constexpr auto kMember = &Sample::cpu_seconds_per_gigabyte;
  PrintRow("  CPU s/GB", compared, kMember, "{:.2f}");
  Series allowed = compared.zmq;
  for (Sample& sample : allowed.samples) {
    sample.*kMember = 1.25 * sample.*kMember + (operation == Operation::kPull ? 0 : apply);
  }
  PrintBeside("  CPU s/GB", "1.25 zmq + apply", allowed, compared.own, kMember, "{:.2f}");
}

void Throughput(const Options& options, std::optional<double> apply_cpu) {
  fmt::print("\nThroughput, GB/s{}\n", apply_cpu ? ", and CPU seconds per GB" : "");
  ForEachCase(options, [&](Case the_case, const std::string& name) {
    the_case.window = WindowFor(the_case.size_bytes);
    const Compared compared = Compare(the_case, options.repetitions);
    PrintRow(name, compared, &Sample::gigabytes_per_second, "{:.2f}");
    if (apply_cpu) PrintCpu(compared, the_case.operation, *apply_cpu);
  });
}

void Latency(const Options& options) {
  fmt::print("\nLatency of one call at a time, microseconds\n");
  Series push;  // the last
  Case push_case;
  ForEachCase(options, [&](Case the_case, const std::string& name) {
    the_case.window = 1;
    const Compared compared = Compare(the_case, options.repetitions);
    PrintRow(name, compared, &Sample::latency_us, "{:.0f}");
    if (the_case.operation == Operation::kPush) {
      push = compared.own;
      push_case = the_case;
    }
    const bool alike = the_case.size_bytes == push_case.size_bytes &&
                       the_case.servers == push_case.servers && the_case.curve == push_case.curve;
    if (the_case.operation != Operation::kPushPull || push.samples.empty() || !alike) return;
    PrintBeside("  push+pull", "push", push, compared.own, &Sample::latency_us, "{:.0f}");
  });
}

void SmallVariables(const Options& options) {
  constexpr int kVariables = 256;
  fmt::print("\n{} variables of 4 KiB in a call, beside bare messages of 1 MiB, GB/s\n",
             kVariables);
  for (const std::string& operation : options.operations) {
    Case the_case;
    the_case.operation = ParseOperation(operation);
    the_case.size_bytes = kVariables * 4 * kKiB;
    the_case.seconds = options.seconds;
    the_case.buffers = WindowFor(the_case.size_bytes);
    the_case.window = the_case.buffers;
    PrintRow("1x1 none 256 x 4 KiB " + operation,
             Compare(the_case, options.repetitions, kVariables), &Sample::gigabytes_per_second,
             "{:.2f}");
  }
}

// Our own call of 1 MiB, changed by `change`, beside the same unchanged.
template <typename Change>
void CompareOwn(const Options& options, const std::string& name, const std::string& peer_name,
                Case the_case, Change change) {
  the_case.seconds = options.seconds;
  the_case.buffers = WindowFor(the_case.size_bytes);
  the_case.window = the_case.buffers;
  Case changed = the_case;
  change(changed);
  Series before;
  Series after;
  for (int i = 0; i < options.repetitions; ++i) {
    before.samples.push_back(MeasureOwn(the_case, 1));
    after.samples.push_back(MeasureOwn(changed, 1));
  }
  PrintBeside(name, peer_name, before, after, &Sample::gigabytes_per_second, "{:.2f}");
}

void Adam(const Options& options) {
  fmt::print("\nAdam on the server beside SGD, pushes of 1 MiB, GB/s\n");
  CompareOwn(options, "1x1 none 1 MiB push, Adam", "sgd", {},
             [](Case& changed) { changed.optimizer = "adam:learning_rate=0.01"; });
}

// A GB here is one of float32 values, however they travel.
void WireValues(const Options& options) {
  fmt::print("\n16-bit values on the wire beside float32, 1 MiB of float32, GB/s\n");
  for (const std::string& operation : options.operations) {
    for (const WireFloat values : {WireFloat::kFloat16, WireFloat::kBfloat16}) {
      const char* const kind = values == WireFloat::kFloat16 ? "float16" : "bfloat16";
      CompareOwn(options, fmt::format("1x1 none 1 MiB {}, {}", operation, kind), "float32",
                 {.operation = ParseOperation(operation)},
                 [&](Case& changed) { changed.values = values; });
    }
  }
}

void ServerThreads(const Options& options) {
  fmt::print("\nA server of two threads beside one, two workers, pushes of 1 MiB, GB/s\n");
  for (const bool curve : {false, true}) {
    CompareOwn(options, fmt::format("1x2 {} 1 MiB push, 2 threads", curve ? "curve" : "none"),
               "one thread", {.workers = 2, .curve = curve},
               [](Case& changed) { changed.server_threads = 2; });
  }
}

// As push and pull have it: out of as many buffers as a worker uses into as many others.
class Memcpy : public Exchange {
 public:
  explicit Memcpy(const Case& the_case)
      : from_(static_cast<size_t>(the_case.buffers), std::vector<char>(the_case.size_bytes, 1)),
        into_(from_) {}
  void Begin(size_t call) override {
    std::memcpy(into_[call].data(), from_[call].data(), from_[call].size());
  }
  void EndOldest() override {}

 private:
  std::vector<std::vector<char>> from_;
  std::vector<std::vector<char>> into_;
};

Sample MeasureMemcpy(Case the_case) {
  the_case.servers = 0;
  return Measure(the_case, nullptr,
                 [](const Case& c, Shared&, int) { return std::make_unique<Memcpy>(c); });
}

void CompareMemory(const Options& options, Case the_case, const std::string& name) {
  Series memcpy_alone;
  Series fast;
  Series tcp;
  Series quick;
  for (int i = 0; i < options.repetitions; ++i) {
    the_case.shared_memory = true;
    the_case.window = the_case.buffers;
    memcpy_alone.samples.push_back(MeasureMemcpy(the_case));
    fast.samples.push_back(MeasureOwn(the_case, 1));
    the_case.window = 1;
    quick.samples.push_back(MeasureOwn(the_case, 1));
    the_case.shared_memory = false;
    tcp.samples.push_back(MeasureOwn(the_case, 1));
  }
  PrintBeside(name, "memcpy", memcpy_alone, fast, &Sample::gigabytes_per_second, "{:.2f}");
  PrintBeside("  CPU s/GB", "memcpy", memcpy_alone, fast, &Sample::cpu_seconds_per_gigabyte,
              "{:.2f}");
  PrintBeside("  latency", "our tcp", tcp, quick, &Sample::latency_us, "{:.1f}");
}

void SharedMemory(Options options) {
  fmt::print(
      "\nThrough shared memory: GB/s and CPU beside as many processes that memcpy, microseconds "
      "beside our TCP\n");
  options.security = {"none"};  // it is the same memory
  ForEachCase(options, [&](const Case& the_case, const std::string& name) {
    CompareMemory(options, the_case, name);
  });
}

// A call that pushes and pulls beside one that pushes: 1 where both directions are used at once and
// cost each other nothing, 2 where they take turns. Bare ZeroMQ shows what can be had: both at
// once, where the answer does not wait for the push, and push+pull, where it waits for all of it.
void CompareBothWays(const Options& options, Case the_case, const std::string& name) {
  const auto of = [&](Operation operation) {
    Case same = the_case;
    same.operation = operation;
    return same;
  };
  const bool bare = !the_case.shared_memory;
  Series zmq_push;
  Series zmq_at_once;
  Series zmq_both;
  Series push;
  Series both;
  for (int i = 0; i < options.repetitions; ++i) {
    if (bare) {
      zmq_push.samples.push_back(Measure(of(Operation::kPush), ServeZmq, MakeZmq));
      zmq_at_once.samples.push_back(Measure(of(Operation::kBothAtOnce), ServeZmq, MakeZmq));
      zmq_both.samples.push_back(Measure(of(Operation::kPushPull), ServeZmq, MakeZmq));
    }
    push.samples.push_back(MeasureOwn(of(Operation::kPush), 1));
    both.samples.push_back(MeasureOwn(of(Operation::kPushPull), 1));
  }
  constexpr auto kMember = &Sample::latency_us;
  if (bare) {
    PrintBeside(name + " zmq at once", "zmq push", zmq_push, zmq_at_once, kMember, "{:.0f}");
    PrintBeside(name + " zmq push+pull", "zmq push", zmq_push, zmq_both, kMember, "{:.0f}");
  }
  PrintBeside(name + " push+pull", "push", push, both, kMember, "{:.0f}");
  if (bare) PrintBeside("", "zmq push+pull", zmq_both, both, kMember, "{:.0f}");
}

void BothWays(const Options& options) {
  fmt::print("\nPush and pull in one call beside a push, microseconds of one call at a time\n");
  const double gigabits = 8e-9 * static_cast<double>(options.link_bytes_per_second);
  for (const size_t size : options.sizes) {
    if (size < kMiB || size > 16 * kMiB) continue;
    Case the_case;
    the_case.size_bytes = size;
    the_case.seconds = options.seconds;
    the_case.buffers = WindowFor(size);
    CompareBothWays(options, the_case, "TCP on this machine " + SizeName(size));
    the_case.shared_memory = true;
    CompareBothWays(options, the_case, "shared memory " + SizeName(size));
    the_case.shared_memory = false;
    the_case.link_bytes_per_second = options.link_bytes_per_second;
    CompareBothWays(options, the_case,
                    fmt::format("link of {:.3g} Gbit/s {}", gigabits, SizeName(size)));
  }
}

bool Wants(const Options& options, const std::string& part) {
  return options.parts.empty() ||
         std::find(options.parts.begin(), options.parts.end(), part) != options.parts.end();
}

void Run(const Options& options) {
  fmt::print("{} repetitions of {} s; median [min-max]\n", options.repetitions, options.seconds);
  std::optional<double> apply_cpu;
  if (Wants(options, "cpu")) apply_cpu = BareApply(options);
  if (Wants(options, "throughput")) Throughput(options, apply_cpu);
  if (Wants(options, "latency")) Latency(options);
  if (Wants(options, "small")) SmallVariables(options);
  if (Wants(options, "adam")) Adam(options);
  if (Wants(options, "values")) WireValues(options);
  if (Wants(options, "threads")) ServerThreads(options);
  if (Wants(options, "memory")) SharedMemory(options);
  if (Wants(options, "duplex")) BothWays(options);
}

}  // namespace
}  // namespace tfdist::runtime::bench

int main(int argc, char** argv) {
  tfdist::runtime::bench::Options options;
  CLI::App app("Measures the parameter server's client beside bare ZeroMQ and TCP.", "ps_bench");
  app.option_defaults()->always_capture_default();
  app.add_option("--repetitions", options.repetitions)->check(CLI::Range(1, 1000));
  app.add_option("--seconds", options.seconds, "of the timed part of each measurement")
      ->check(CLI::PositiveNumber);
  app.add_option("--sizes", options.sizes, "bytes: 4096,268435456")->delimiter(',');
  app.add_option("--operations", options.operations, "push, pull, push+pull")
      ->delimiter(',')
      ->check(CLI::IsMember({"push", "pull", "push+pull"}));
  app.add_option("--layouts", options.layouts, "servers, and as many workers: 1,2")
      ->delimiter(',')
      ->check(CLI::Range(1, 8));
  app.add_option("--security", options.security, "none,curve")
      ->delimiter(',')
      ->check(CLI::IsMember({"none", "curve"}));
  app.add_option("--bytes-under-way", options.bytes_under_way,
                 "of our client, per server; 0: its own choice");
  app.add_option("--link-bytes-per-second", options.link_bytes_per_second,
                 "each way, of the network that `duplex` makes up")
      ->check(CLI::PositiveNumber);
  app.add_option("--parts", options.parts,
                 fmt::format("{}; all by default", fmt::join(tfdist::runtime::bench::kParts, ",")))
      ->delimiter(',')
      ->check(CLI::IsMember(tfdist::runtime::bench::kParts));
  CLI11_PARSE(app, argc, argv);
  tfdist::runtime::KeepFreedMemory();
  tfdist::runtime::bench::Run(options);
  return 0;
}
