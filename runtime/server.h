// A parameter server as a library: holds variables that one trainer of the job (the chief) creates,
// applies the gradients that trainers push, and gives them the values. The trainers' side is
// runtime/client.h; a whole program of both is runtime/examples/two_sides.cc.
//
//     ServerOptions options;
//     options.config = TfConfig::FromJson(...);       // its task is this server: "ps:0"
//     options.secret = JobSecret::FromFile("secret");  // without it: no security, by choice
//     Server server(options);                         // listens from here on
//     server.Run(stop_fd);                            // serves until stop_fd is readable
//
// Variables are dense float32, and tables of rows of it. Their values live in memory: a server that
// is started again has none, and refuses trainers of before. The chief may have them written into
// checkpoints, and a job whose tasks are all new goes on from one. A process that serves
// should call KeepFreedMemory() of runtime/common/memory.h.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "runtime/common/say.h"
#include "runtime/tf_config.h"
#include "runtime/transport/keys.h"

namespace tfdist::runtime {

struct ServerOptions {
  TfConfig config;                  // the cluster, and this server as its task
  std::optional<JobSecret> secret;  // absent: anyone on the network may read and change the model
  uint32_t attempt = 1;             // of the job: trainers of older attempts are refused
  Say say = [](const std::string&) {};  // where it listens; in the end what it has served
  // For trainers on the same host that ask for it: see ClientOptions.
  bool shared_memory = true;
  // With synchronous updates or bounded staleness: no trainer waits any longer for one whose
  // connection is gone for this long. A broken network needs up to 15 s more to be seen.
  std::chrono::milliseconds lost_after{10'000};
  // Each owns a part of the variables and a port: the first that of the cluster spec, the others
  // whatever is free, which the first tells the trainers. 1 to 64. More than one pays where a core
  // is free for each and one cannot keep up.
  size_t threads = 1;
  // Where this server's shards of checkpoints are written and read (runtime/checkpoint/README.md);
  // empty: it has none. And where a checkpoint is that a new model's first values are taken from.
  std::filesystem::path checkpoints = {};
  std::filesystem::path first_values = {};
};

// Bytes are those of headers and payloads, without what ZeroMQ, CURVE and TCP add. Of several
// threads it is their sum, but pulls, pushes, stale, updates and longest_queue are those of the
// thread that has most.
struct ServerCounters {
  uint64_t pulls = 0;        // requests for variables, however many messages they took
  uint64_t pushes = 0;       // applied, or counted into a mean; one that is sent again counts once
  uint64_t stale = 0;        // pushes that came too late for their step: dropped, at least in part
  uint64_t updates = 0;      // steps: a push applied, or a mean of several
  double held_seconds = 0;   // that trainers waited for others, all of them together
  uint64_t lost = 0;         // times that a trainer was waited for no more
  uint64_t pulled_rows = 0;  // of tables; again where a request came again
  uint64_t pushed_rows = 0;  // the same, applied
  uint64_t received_bytes = 0;
  uint64_t sent_bytes = 0;
  uint64_t refused = 0;        // messages
  uint64_t repeated = 0;       // parts of pushes that had been applied before a connection broke
  uint64_t strangers = 0;      // messages that came before their connection's hello, dropped
  uint64_t local_bytes = 0;    // of all those received and sent, through shared memory
  uint64_t unread = 0;         // answers dropped because the trainer does not read
  uint64_t new_versions = 0;   // updates that left the old values to answers on their way
  uint64_t longest_queue = 0;  // messages answered without a pause in between
  double idle_seconds = 0;     // spent waiting for messages
  double busy_seconds = 0;     // the rest of the time in Run
};
// "served: 2004 pulls, 2001 pushes, ... 0 refused, ...": what seldom happens only when it has.
std::string ToString(const ServerCounters& counters);

// One thread at a time; counters() only while nobody runs it. Memory beside the variables:
// the optimizer's; with synchronous updates as much again for sums, and the rows that a step names.
// In each thread, for every trainer on the same host 8 MiB of shared memory; for every trainer that
// does not read up to kMaxMessagesUnderWay messages in and kMaxAnswersQueued answers out, of 1 MiB
// each at most; for every trainer that waits for others what it asked for, of which row numbers
// take 1 MiB a message at most. Answers in float32 share one copy of equal values.
class Server {
 public:
  // Listens at its own address of the cluster spec. Throws Error(kUsage) for a number of threads
  // that there cannot be, Error(kPorts) when it cannot listen, or would have to listen everywhere
  // without security.
  explicit Server(const ServerOptions& options);
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server();

  // Serves until `stop_fd` is readable. Bad requests are refused, each with its reason, to their
  // sender alone, and change nothing. Throws nothing but Error(kInternal).
  void Run(int stop_fd);

  [[nodiscard]] ServerCounters counters() const;
  // What it listens on: "tcp://10.0.0.1:2223".
  [[nodiscard]] std::string Endpoint() const;

 private:
  class Impl;  // keeps ZeroMQ out of every file that includes this one
  std::unique_ptr<Impl> impl_;
};

}  // namespace tfdist::runtime
