// A trainer's view of all parameter servers of its job together: gradients in, values out. The
// servers' side is runtime/server.h; a whole program of both is runtime/examples/two_sides.cc.
//
//     Client client(options, {{"kernel", {64, 10}}, {"bias", {10}}});
//     if (chief) client.Create({kernel, bias}, {.learning_rate = 0.1F});
//     client.Pull({{0, kernel}, {1, bias}});              // waits for the chief and all servers
//     while (...) client.PushPull({{0, kernel_gradient}, {1, bias_gradient}},
//                                 {{0, kernel}, {1, bias}});
//
// or, to compute while values travel:
//
//     Future pushed = client.StartPush({{0, kernel_gradient}});
//     ... compute the gradient of bias ...
//     Future both = client.StartPushPull({{1, bias_gradient}}, {{0, kernel}, {1, bias}});
//     pushed.Wait();
//     both.Wait();
//
// That is two steps. One step whose gradients come one after the other, and whose values are awaited
// one after the other:
//
//     Future step = client.StartStep({{0, kernel_gradient}, {1, bias_gradient}},
//                                    {{0, kernel}, {1, bias}});
//     ... compute the gradient of bias ...
//     step.GiveGradients(1, 1);
//     ... compute the gradient of kernel ...
//     step.GiveGradients(0, 1);
//     step.WaitForValues(0, 1);
//     ... compute with the kernel ...
//     step.Wait();
//
// Embedding tables, of which a request names rows by id (runtime/table.h):
//
//     Client client(options, {}, {words});
//     client.Pull({}, {{0, ids, rows}});            // row i is that of ids[i]
//     client.Push({}, {{0, ids, row_gradients}});
//
// Variables are dense float32 tensors, row-major, named by their position in the list that the
// client was made with; so are tables, in a list of their own. Both are spread over the servers by
// placement, the variables first. A request goes to all servers that hold a part of it at once, in
// messages of about 1 MiB: larger variables are cut, small ones travel together. Gradients are sent
// from where they lie, those of rows from a copy; values are copied once, to where they belong. A
// server on this host reads and writes by itself what lies in ClientOptions::memory.
//
// Threads: a client and its futures belong to one thread at a time. It has no thread of its own (a
// change of threads costs more than a small request): ZeroMQ's sends and receives in the
// background. What does not fit into `bytes_under_way`, or through shared memory into its 4 MiB
// each way, moves on only inside a call of this client or of one of its futures: a caller that
// computes for long after StartPush calls Ready() now and then.
//
// What is applied: a push is applied once, even when the connection breaks and it is sent again. A
// message is applied as a whole or, when a value of it is NaN or infinite, not at all; a push that
// takes one message per server (up to 512 KiB on each) is all or nothing there. Of a larger one
// that is refused, other messages are applied (of Adam's, which moves all rows of a table with the
// last one, perhaps no more than m and v are changed), and it does not count as a step. Pushes and
// pulls of several trainers are not ordered beyond that: a pull can find one variable before and
// another after the push of another trainer. The same holds for the rows of a table, which are
// updated in place: each row comes as it was before or after another trainer's push, never half of
// it.
//
// The chief may choose that trainers wait for each other (UpdateMode; runtime/README.md). Then a
// push ends when this trainer may go on, and a pull begun after it as well; a push that comes too
// late for its step is dropped, and ends all the same. A gradient counts as computed with the
// values of the last request that ended before the push was begun; a trainer that begins another push
// before the last one is answered is one step further ahead. A push that one server refuses (a NaN)
// counts on the others: then this trainer is one push behind on that server, and two trainers may
// wait for each other. The destructor tells the servers that no trainer needs to wait for this one.
//
// One client for each task at a time: a second one takes the place of the first, which fails.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/common/say.h"
#include "runtime/common/shard_facts.h"
#include "runtime/common/shared_memory.h"
#include "runtime/common/tensor.h"
#include "runtime/placement/placement.h"
#include "runtime/table.h"
#include "runtime/tf_config.h"
#include "runtime/transport/keys.h"
#include "runtime/transport/refusal.h"
#include "runtime/transport/wire_float.h"
#include "runtime/update/optimizer_spec.h"
#include "runtime/update/update_mode.h"

namespace tfdist::runtime {

struct ClientOptions {
  TfConfig config;                  // the cluster, and this trainer as its task
  std::optional<JobSecret> secret;  // absent: no security; the servers must have chosen the same
  uint32_t attempt = 1;             // of the job
  // How long a server may leave a request without any answer, while the caller waits, before the
  // client gives up. It gives up 5 s later, as its own process may have been the one that was
  // stopped.
  std::chrono::milliseconds server_timeout{600'000};
  // How often a waiting trainer names the task that it waits for: "waiting for ps:1 at 10.0.0.2:2223 (connection): 10 s",
  // "waiting for worker:3 (step 12), says ps:0 at 10.0.0.1:2223: 10 s".
  std::chrono::milliseconds notice_interval{10'000};
  Say say = [](const std::string&) {};
  // Of gradients and values, per server, asked for and not answered. More only costs memory, on
  // both sides, once it covers what the network takes at a time.
  size_t bytes_under_way = size_t{16} << 20;
  // Number format of dense variables' gradients and values on the wire; rows of tables are always
  // float32. The 16-bit formats take half the bytes and round; a request with a gradient or value
  // above 65,504 is refused with float16.
  WireFloat values = WireFloat::kFloat32;
  // Messages to a server on the same host, under the same account, go through shared memory: 8 MiB
  // for each of its threads, which the server takes.
  bool shared_memory = true;
  // Gradients and targets that lie in it, as large variables of their own and in float32, are not
  // copied on their way to and from a server on the same host: it reads and writes them here. May be nullptr.
  std::shared_ptr<const SharedMemory> memory{};
  // Of every server, as its own options say. The variables of a server are spread over its threads
  // by their bytes, the next one to the thread with the fewest.
  size_t server_threads = 1;
  // How variables are spread over the servers; the same in every trainer.
  Strategy strategy = Strategy::kRoundRobin;
  Partitioner partitioner = Unsplit{};  // of every variable
};

// One variable of a request. All of its values, borrowed until the request has ended.
struct Gradient {
  size_t variable = 0;  // position in the client's list
  std::span<const float> values;
};
struct Target {
  size_t variable = 0;
  std::span<float> values;
};
using Gradients = std::vector<Gradient>;
using Targets = std::vector<Target>;
// Of a variable's target, the part that has its values now; each part once.
using TakeValues = std::function<void(size_t variable, std::span<const float> values)>;

// Rows of one table, one for each id and as wide as the table's. Ids may repeat: the gradients of
// an id are all applied, summed first unless it is SGD that applies each push by itself, and its
// row is copied to every place that asks for it. Ids are read before the call returns, values are
// borrowed until the end of the request. Each id goes to the one server that holds its row. There
// may be none: that is a push to the table all the same, and Adam moves its rows.
struct RowGradient {
  size_t table = 0;  // position in the client's list
  std::span<const int64_t> ids;
  std::span<const float> values;
};
struct RowTarget {
  size_t table = 0;
  std::span<const int64_t> ids;
  std::span<float> values;
};
using RowGradients = std::vector<RowGradient>;
using RowTargets = std::vector<RowTarget>;

// All variables, in order.
Gradients GradientsOf(const Tensors& tensors);
Targets TargetsOf(Tensors& tensors);

// A checkpoint to be made.
struct SaveSpec {
  uint64_t number = 0;         // its name is ckpt-NUMBER
  uint64_t id = 0;             // random
  std::vector<uint64_t> kept;  // earlier ones that stay; servers remove the others
};
// What the servers have written of it.
struct Saved {
  uint64_t step = 0;               // the global one, as ps:0 counts it
  std::vector<ShardFacts> shards;  // by server, or thread of one
  std::optional<Refusal> failure;  // the first
};
// A checkpoint to go on from. Its files lie in the folders that the servers were told.
struct RestoreSpec {
  std::string name;  // for texts
  uint64_t number = 0;
  uint64_t step = 0;  // to go on from
  std::vector<ShardFacts> shards;
  bool values_only = false;  // a new model: step 0, and nothing of the optimizer
};

struct ClientCounters {
  uint64_t sent_bytes = 0;      // headers and payloads; what is sent again counts again
  uint64_t received_bytes = 0;  // the same
  uint64_t messages = 0;        // sent
  uint64_t sent_again = 0;      // of them, after a connection broke
  double blocked_seconds = 0;   // spent waiting for servers
};
// "asked: 2012 messages, 0 of them again, 38677704 bytes sent, 38619738 bytes received, blocked
// 0.4 s"
std::string ToString(const ClientCounters& counters);

// What one server has exchanged with this client: all threads of it together.
struct ServerTraffic {
  std::string server;           // "ps:1"
  uint64_t held_bytes = 0;      // of variables, as float32
  uint64_t sent_bytes = 0;      // as in ClientCounters
  uint64_t received_bytes = 0;  // the same
};

// How much one server has to do, for all trainers, as its replies to this client have said: all
// threads of it together.
struct ServerLoad {
  uint64_t longest_queue = 0;  // messages answered without a pause in between; of one thread
  uint64_t most_held = 0;      // answers held back at a time, until other trainers have pushed
  double idle_seconds = 0;     // since it started, until it replied last; mean of its threads
  std::chrono::steady_clock::time_point replied{};  // when that was
};

// A request under way. The client must outlive it.
class Future {
 public:
  Future(Future&&) noexcept;
  Future& operator=(Future&&) noexcept;
  // Waits for the end of the request, whose buffers are borrowed until then, and drops its error.
  // A step whose gradients are not all there cannot end: then the client has failed.
  ~Future();

  // Of StartStep alone, for `count` variables from `first` on. Their gradients are there, and leave
  // as soon as may be: a message when it has all that belongs into it.
  void GiveGradients(size_t first, size_t count);
  // The same, when the first `floats` of one variable's gradient are there; a later call gives more.
  void GiveGradientUpTo(size_t variable, size_t floats);
  // Waits for their values. May be called several times. Throws as Wait(), which is still due.
  void WaitForValues(size_t first, size_t count);

  // Moves all requests of the client on, without waiting. True when this one has ended.
  bool Ready();
  // Waits for the end and returns the global step: the number of updates that ps:0 has applied, as
  // it said with its last answer. Throws Refusal when a server refuses the request; the client and
  // its other requests go on. Throws what the client's calls throw when the client has failed.
  // Once.
  uint64_t Wait();

 private:
  friend class Client;
  struct State;
  explicit Future(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

// Every waiting call waits for all servers it concerns, however late they start, and names them
// while it waits. It throws Error(kConnect) when one has not answered within `server_timeout`, Error(kAuth) when
// one does not know our key, Refusal when one does not let us in: then the client has failed, no
// buffer is borrowed any more, and every later call throws the same. A variable, table, id, shape
// or number of values that is not the client's own is an Error(kUsage), found before anything is
// sent.
class Client {
 public:
  // `variables` and `tables` in the order of creation, the same in every trainer. Connects in the
  // background. Throws Error(kUsage) for an invalid number of threads and for rows that are too
  // wide, Error(kRun) for what cannot be placed: an invalid shape or name, a table without rows, a
  // partitioner that fits no variable.
  Client(ClientOptions options, std::vector<TensorSpec> variables,
         const std::vector<TableSpec>& tables = {});
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client();

  // Chief only: creates the variables with these values, one tensor for each, and chooses the
  // optimizer and the mode of updates. Tables get their first rows on their servers, before this
  // returns. With Adam every push to a table changes all of its rows, as in TensorFlow, and costs
  // as much as the table is large; with `lazy` those that it names. A synchronous step changes each
  // row by the mean of the pushes that name it. Where variables and tables are already, as after a
  // restart of the chief, they stay as they are, and so do their optimizer and mode, which is said.
  // Throws Error(kRun) when they are there on one server, trained, and gone from another; throws
  // Error(kUsage) for an optimizer or a mode with a number out of range, before anything is sent.
  void Create(const Tensors& initial, const OptimizerSpec& optimizer,
              const UpdateMode& update = {});

  // The same, but the values, and what belongs to them, are those of the first of the checkpoints
  // that all servers can read; of each that they cannot it is said why. Returns which one;
  // nullopt when the variables are there already, or when there was none to choose from. Throws
  // Error(kRun) when none of several could be read: training does not begin anew by itself.
  std::optional<size_t> Restore(const std::vector<RestoreSpec>& checkpoints, const Tensors& initial,
                                const OptimizerSpec& optimizer, const UpdateMode& update = {});

  // Chief only: every server writes what it holds at that moment, while training goes on. One at a
  // time. Other calls of the client move it on.
  void StartSave(const SaveSpec& save);
  // What has come of it, once: nullopt as long as a server is writing, or when none was started.
  std::optional<Saved> TakeSaved();
  // The same, waiting.
  Saved WaitForSave();

  // Applies gradients by the optimizer that the chief has chosen. No variable or table twice. A
  // push may be empty: it counts as a step all the same.
  uint64_t Push(const Gradients& gradients, const RowGradients& row_gradients = {}) {
    return StartPush(gradients, row_gradients).Wait();
  }
  // Fills `targets` and `row_targets` once the chief has created the variables. None twice.
  uint64_t Pull(const Targets& targets, const RowTargets& row_targets = {}) {
    return StartPull(targets, row_targets).Wait();
  }
  // Both in one round trip; a variable or row of both comes back with this push applied.
  uint64_t PushPull(const Gradients& gradients, const Targets& targets,
                    const RowGradients& row_gradients = {}, const RowTargets& row_targets = {}) {
    return StartPushPull(gradients, targets, row_gradients, row_targets).Wait();
  }

  // The same, returning at once, but for the first push, which waits until the variables are there.
  // Several may be under way, 1,000 at most: a further one waits for
  // the oldest. They are begun in order; a small one may end before a large one that was begun
  // earlier.
  Future StartPush(const Gradients& gradients, const RowGradients& row_gradients = {}) {
    return StartPushPull(gradients, {}, row_gradients, {});
  }
  Future StartPull(const Targets& targets, const RowTargets& row_targets = {});
  Future StartPushPull(const Gradients& gradients, const Targets& targets,
                       const RowGradients& row_gradients = {}, const RowTargets& row_targets = {});

  // As StartPushPull: one push, one step. But no gradient is read before Future::GiveGradients has
  // told of it, and until it has told of all no other push or pull may be begun. Values come as soon
  // as the gradients of their message are applied; where trainers wait for each other, when the
  // whole push may go on.
  // `take`: called whenever values have come, within a call of this client or of a future of its,
  // which it must not call itself.
  Future StartStep(const Gradients& gradients, const Targets& targets, TakeValues take = {});

  // Chief only: training is over. The other trainers are told so with every reply from now on, and
  // none waits for another any more. Ends when a chief calls Create again.
  void EndTraining();
  // As the last replies have said.
  [[nodiscard]] bool training_is_over() const;

  // How many servers hold a part of the variables (ps:0 counts the steps and always does).
  [[nodiscard]] size_t server_count() const;
  [[nodiscard]] ClientCounters counters() const;
  // Of the servers that are counted there, in the order of the cluster spec.
  [[nodiscard]] std::vector<ServerTraffic> traffic() const;
  // Of the same servers, since the last call.
  [[nodiscard]] std::vector<ServerLoad> TakeLoads();

 private:
  friend class Future;
  class Impl;  // keeps ZeroMQ out of every file that includes this one
  std::unique_ptr<Impl> impl_;
};

}  // namespace tfdist::runtime
