#include "runtime/client.h"

#include <fmt/format.h>
#include <sched.h>
#include <sodium.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <iterator>
#include <utility>
#include <zmq.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "runtime/client/link.h"
#include "runtime/client/request.h"
#include "runtime/client/rows.h"
#include "runtime/common/cluster.h"
#include "runtime/placement/placement.h"
#include "runtime/shm/wake.h"
#include "runtime/transport/blocks.h"
#include "runtime/transport/no_connection.h"
#include "runtime/transport/shm_connection.h"
#include "runtime/transport/zmq_connection.h"

namespace tfdist::runtime {
namespace {

using std::chrono::duration;
using std::chrono::duration_cast;
using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

// Leaves room below what a server remembers of a client.
constexpr uint64_t kMaxBegun = kMaxRequestsUnderWay - 24;
// How often to look whether ZeroMQ has let go of the last message of an answered request.
constexpr milliseconds kBorrowedLook{1};
constexpr int kYieldsBeforeLook = 50;
// How long a server that is late is waited for from when that is seen.
constexpr seconds kLastLook{5};
// What a wake-up takes on a busy machine.
constexpr milliseconds kLate{500};
// Its own, its monitor's two ends.
constexpr size_t kSocketsPerLink = 3;

// Tells the requests of this start of the task from those of an earlier one.
uint64_t RandomClient() {
  uint64_t client = 0;
  randombytes_buf(&client, sizeof client);
  return client;
}

// What one server holds of the variables; of a server with several threads, what one of them holds.
struct Share {
  uint64_t bytes = 0;
  std::vector<TensorSpec> specs;
  std::vector<TablePart> tables;
  std::optional<BlockLayout> layout;
};

// Where a part of a variable is.
struct Location {
  size_t server = 0;
  size_t position = 0;  // in the server's list
  size_t first = 0;     // float of the variable
};

// Where a table is.
struct TableLocation {
  struct Part {
    size_t server = 0;
    uint32_t position = 0;  // in the server's list
  };
  RowMap rows;
  std::vector<Part> parts;
};

TablePart PartOf(const TableSpec& table, const RowSet& rows) {
  return {table.name, rows.count, table.width, rows.first, rows.step, table.initial};
}

Variable VariableOf(const TableSpec& table) {
  return {.spec = {table.name, {table.rows, table.width}},
          .lookup = table.lookup,
          .partitioner = table.partitioner};
}

// Collects the parts of one request to one server, one for each block.
class PartsBuilder {
 public:
  void Add(const Extent& extent, const float* gradient) {
    PartOf(extent.block).push.push_back({{extent.offset, extent.count}, gradient + extent.first});
  }
  void Add(const Extent& extent, float* target) {
    PartOf(extent.block).pull.push_back({{extent.offset, extent.count}, target + extent.first});
  }

  std::vector<RequestPart> Take() {
    const auto by_offset = [](const auto& a, const auto& b) {
      return a.range.offset < b.range.offset;
    };
    for (RequestPart& part : parts_) {
      std::sort(part.push.begin(), part.push.end(), by_offset);
      std::sort(part.pull.begin(), part.pull.end(), by_offset);
      positions_[part.block] = 0;
    }
    return std::exchange(parts_, {});
  }

 private:
  RequestPart& PartOf(uint32_t block) {
    if (block >= positions_.size()) positions_.resize(block + 1);
    if (positions_[block] == 0) {
      parts_.emplace_back().block = block;
      positions_[block] = parts_.size();
    }
    return parts_[positions_[block] - 1];
  }

  std::vector<RequestPart> parts_;
  std::vector<size_t> positions_;  // by block: that of its part, counted from 1
};

// When to give up. Who was stopped (SIGSTOP) finds a deadline behind it before ZeroMQ's thread has
// read an answer that has long been there, or has made the connection anew: hence a last look, and
// another one if it was stopped during that.
class Patience {
 public:
  TimePoint EndOf(TimePoint now, TimePoint deadline) {
    if (now < deadline) {
      last_look_ = TimePoint::min();
      return deadline;
    }
    if (now >= last_look_ + kLate) last_look_ = now + kLastLook;
    return last_look_;
  }

 private:
  TimePoint last_look_ = TimePoint::min();  // its end
};

}  // namespace

struct Future::State : RequestState {
  explicit State(Client::Impl* the_client) : client(the_client) {}
  Client::Impl* client;
};

class Client::Impl {
 public:
  Impl(ClientOptions options, std::vector<TensorSpec> variables, std::vector<TableSpec> tables)
      : options_(std::move(options)),
        variables_(std::move(variables)),
        tables_(std::move(tables)),
        id_(RandomClient()) {
    for (const TableSpec& table : tables_) CheckWidth(table);
    for (const TensorSpec& variable : variables_) floats_.push_back(ElementCount(variable));
    CheckServerThreads(options_.server_threads);
    PlaceVariables(ServersOf(options_.config.cluster).size());
    context_.set(zmq::ctxopt::max_sockets, static_cast<int>(kSocketsPerLink * shares_.size() + 8));
    for (size_t i = 0; i < shares_.size(); ++i) links_.push_back(OpenLink(i));
    ports_.resize(links_.size());
    builders_.resize(links_.size());
    row_builders_.resize(links_.size());
  }

  // The servers wait for nobody who says goodbye. Where that does not arrive this trainer is lost:
  // with synchronous updates it is waited for, as nobody knows that it does not come back.
  ~Impl() {
    try {
      for (const auto& link : links_) link->SayGoodbye();
    } catch (const std::exception&) {
      // They will find out.
    }
  }

  void Create(const Tensors& initial, const OptimizerSpec& optimizer, const UpdateMode& update) {
    ThrowIfFailed();
    Check(optimizer, Phase::kUsage);
    Gradients values = GradientsOf(initial);
    CheckAll(values, "value");
    if (values.size() != variables_.size()) {
      throw Error(Phase::kUsage, "a first value is needed for every variable");
    }
    for (size_t i = 0; i < links_.size(); ++i) {
      Request request;
      request.operation = Operation::kCreate;
      request.optimizer = ToString(optimizer);
      request.update_mode = ToString(update);
      request.variables = shares_[i].specs;
      request.tables = shares_[i].tables;
      links_[i]->Ask(std::move(request));
    }
    WaitUntil([&] { return std::none_of(links_.begin(), links_.end(), Asking); }, nullptr);
    SayOrThrowIfThereAlready();
    AssignFirstValues(values);
  }

  std::shared_ptr<Future::State> Start(const Gradients& gradients, const Targets& targets,
                                       const RowGradients& row_gradients,
                                       const RowTargets& row_targets, bool is_push) {
    ThrowIfFailed();
    CheckAll(gradients, "gradient");
    CheckAll(targets, "target");
    CheckAllRows(row_gradients, "gradient");
    CheckAllRows(row_targets, "target");
    for (size_t i = 0; i < links_.size(); ++i) OpenIfNeeded(i);
    if (is_push) WaitUntil([&] { return AllOpened(); }, nullptr);
    MakeRoom();
    auto state = std::make_shared<Future::State>(this);
    state->is_push = is_push;
    state->next_step = is_push ? links_.front()->step() + 1 : 0;
    SplitAll(row_gradients, row_targets, *state);
    for (const Gradient& gradient : gradients) AddPieces(gradient.variable, gradient.values.data());
    for (const Target& target : targets) AddPieces(target.variable, target.values.data());
    AddAllRows(row_gradients, row_targets, *state);
    for (size_t i = 0; i < links_.size(); ++i) {
      std::vector<RequestPart> parts = builders_[i].Take();
      std::vector<RequestPart> about_rows = row_builders_[i].Take();
      std::move(about_rows.begin(), about_rows.end(), std::back_inserter(parts));
      // ps:0 counts the steps; where trainers wait for each other all servers with variables do.
      const bool counts = i == 0 || (links_[i]->holds_back() && shares_[i].bytes > 0);
      if (parts.empty() && is_push && counts) parts.emplace_back();
      if (!parts.empty()) links_[i]->Begin(state, Operation::kExchange, std::move(parts));
    }
    Try([](Link& link) { link.SendWhatMayBe(); });
    return state;
  }

  // Returns when the request has ended, however; throws when the client has failed.
  uint64_t Wait(Future::State& state) {
    WaitUntil([&] { return state.ended(); }, &state);
    for (auto& split : std::exchange(state.splits, {})) spare_splits_.push_back(std::move(split));
    if (state.refusal) throw Refusal(*state.refusal);
    return links_.front()->step();
  }

  bool Ready(const Future::State& state) {
    try {
      if (!failure_) MoveOn(true);
    } catch (const Error&) {
      // Wait() throws it again.
    }
    return failure_ || state.ended();
  }

  [[nodiscard]] size_t server_count() const {
    return (shares_.size() + options_.server_threads - 1) / options_.server_threads;
  }

  [[nodiscard]] ClientCounters counters() const {
    ClientCounters counters;
    for (const auto& link : links_) {
      counters.sent_bytes += link->counters().sent_bytes;
      counters.received_bytes += link->counters().received_bytes;
      counters.messages += link->counters().messages;
      counters.sent_again += link->counters().sent_again;
    }
    counters.blocked_seconds = blocked_seconds_;
    return counters;
  }

 private:
  [[nodiscard]] bool AllOpened() const {
    return std::all_of(links_.begin(), links_.end(),
                       [](const auto& link) { return link->opened(); });
  }

  // Trained values beside first ones would be no model.
  void SayOrThrowIfThereAlready() {
    const auto by_steps = [](const auto& a, const auto& b) { return a->step() < b->step(); };
    const auto is_new = [](const auto& link) { return link->is_new(); };
    const Link& oldest = **std::max_element(links_.begin(), links_.end(), by_steps);
    const auto fresh = std::find_if(links_.begin(), links_.end(), is_new);
    if (fresh == links_.end()) {
      options_.say(
          fmt::format("the variables are there already, at step {}: they keep their "
                      "values, their optimizer and their mode of updates",
                      links_.front()->step()));
    } else if (oldest.step() > 0) {
      Fail(Error(Phase::kRun,
                 fmt::format("{} was started again: it has no variables, and those of {} are at "
                             "step {}",
                             (*fresh)->name(), oldest.name(), oldest.step()),
                 kRestartJob));
    }
  }

  static bool Asking(const std::unique_ptr<Link>& link) { return link->asking(); }

  void PlaceVariables(size_t server_count) {
    std::vector<Variable> variables;
    for (const TensorSpec& spec : variables_) {
      variables.push_back({.spec = spec, .lookup = {}, .partitioner = options_.partitioner});
    }
    for (const TableSpec& table : tables_) variables.push_back(VariableOf(table));
    const Placement placement = Place(variables, server_count, options_.strategy);
    // Servers behind the last that holds something are left alone; ps:0 counts the steps.
    shares_.resize(options_.server_threads);
    locations_.resize(variables_.size());
    for (size_t i = 0; i < variables_.size(); ++i) {
      const size_t rows = placement.variables[i].rows.rows();
      for (const Part& part : placement.variables[i].parts) {
        const size_t server = TakeThread(part);
        Share& share = shares_[server];
        locations_[i].push_back(
            {server, share.specs.size(), part.rows.first * (floats_[i] / rows)});
        share.specs.push_back(part.spec);
      }
    }
    for (size_t i = 0; i < tables_.size(); ++i) {
      PlaceTable(tables_[i], placement.variables[variables_.size() + i]);
    }
    for (Share& share : shares_) share.layout.emplace(share.specs);
  }

  void PlaceTable(const TableSpec& table, const PlacedVariable& placed) {
    TableLocation& location = table_locations_.emplace_back(TableLocation{placed.rows, {}});
    for (const Part& part : placed.parts) {
      const size_t server = TakeThread(part);
      std::vector<TablePart>& there = shares_[server].tables;
      location.parts.push_back({server, static_cast<uint32_t>(there.size())});
      there.push_back(PartOf(table, part.rows));
    }
  }

  // The thread of the part's server that has the least, and has this part too from now on. Threads
  // count as servers here: those of server i are i * server_threads and the following.
  size_t TakeThread(const Part& part) {
    const size_t first = part.server * options_.server_threads;
    shares_.resize(std::max(shares_.size(), first + options_.server_threads));
    const auto begin = shares_.begin() + static_cast<ptrdiff_t>(first);
    const auto least =
        std::min_element(begin, begin + static_cast<ptrdiff_t>(options_.server_threads),
                         [](const Share& a, const Share& b) { return a.bytes < b.bytes; });
    least->bytes += part.bytes;
    return static_cast<size_t>(least - shares_.begin());
  }

  std::unique_ptr<Link> OpenLink(size_t server) {
    Request hello;
    hello.operation = Operation::kHello;
    hello.attempt = options_.attempt;
    hello.client = id_;
    hello.task = ToString(options_.config.task);
    const HostPort address = AddressOf(server);
    // Where its other threads listen a server tells itself.
    const bool known = server % options_.server_threads == 0;
    auto connection = known ? ConnectionTo(server, address) : std::make_unique<NoConnection>();
    return std::make_unique<Link>(NameOf(server, address), std::move(connection), std::move(hello),
                                  options_.bytes_under_way, options_.values,
                                  known ? options_.server_threads - 1 : 0);
  }

  [[nodiscard]] TaskId TaskOf(size_t server) const {
    return ServersOf(options_.config.cluster)[server / options_.server_threads];
  }

  [[nodiscard]] HostPort AddressOf(size_t server) const {
    return runtime::AddressOf(options_.config.cluster, TaskOf(server));
  }

  [[nodiscard]] std::string NameOf(size_t server, const HostPort& address) const {
    const size_t thread = server % options_.server_threads;
    return fmt::format("{} at {}{}", ToString(TaskOf(server)), ToString(address),
                       thread == 0 ? "" : fmt::format(" (thread {})", thread));
  }

  std::unique_ptr<Connection> ConnectionTo(size_t server, const HostPort& address) {
    const std::string name = NameOf(server, address);
    std::optional<ClientKeys> keys;
    if (options_.secret) {
      keys = KeysOfClient(*options_.secret, options_.config.task, TaskOf(server));
    }
    std::unique_ptr<Connection> remote;
    try {
      remote = std::make_unique<ZmqConnection>(context_, name, "tcp://" + ToString(address), keys);
    } catch (const zmq::error_t& error) {
      throw Error(Phase::kInternal, fmt::format("no connection to {}: {}", name, error.what()),
                  "raise `ulimit -n`");
    }
    if (!options_.shared_memory) return remote;
    return std::make_unique<ShmConnection>(name, std::move(remote), options_.say);
  }

  // To threads whose server has said where they listen, for the first time or after its restart.
  // Returns whether there was one.
  bool ConnectThreads() {
    bool connected = false;
    const size_t threads = options_.server_threads;
    for (size_t first = 0; first < links_.size(); first += threads) {
      const auto& ports = links_[first]->ports();
      if (!ports) continue;
      for (size_t i = 1; i < threads; ++i) {
        connected = ConnectThread(first + i, ports->at(i - 1)) || connected;
      }
    }
    return connected;
  }

  bool ConnectThread(size_t server, uint16_t port) {
    if (ports_[server] == port) return false;
    HostPort address = AddressOf(server);
    address.port = port;
    links_[server]->Connect(NameOf(server, address), ConnectionTo(server, address));
    ports_[server] = port;
    return true;
  }

  // Each is a variable of ours, once, with as many values as it has.
  template <typename Items>
  void CheckAll(const Items& items, const char* what) {
    seen_.assign(variables_.size(), false);
    for (const auto& item : items) {
      if (item.variable >= variables_.size()) {
        throw Error(Phase::kUsage, fmt::format("{} for variable {} of {}", what, item.variable,
                                               variables_.size()));
      }
      const TensorSpec& variable = variables_[item.variable];
      if (seen_[item.variable]) {
        throw Error(Phase::kUsage, fmt::format("two {}s for {}", what, ToString(variable)));
      }
      seen_[item.variable] = true;
      if (item.values.size() != floats_[item.variable]) {
        throw Error(Phase::kUsage, fmt::format("{} for {} has {} values", what, ToString(variable),
                                               item.values.size()));
      }
    }
  }

  static void CheckWidth(const TableSpec& table) {
    if (table.width <= kMaxTableWidth) return;
    throw Error(Phase::kUsage, fmt::format("table {}: rows of {} floats, {} are the most",
                                           table.name, table.width, kMaxTableWidth));
  }

  template <typename Items>
  void CheckAllRows(const Items& items, const char* what) {
    seen_.assign(tables_.size(), false);
    for (const auto& item : items) {
      if (item.table >= tables_.size()) {
        throw Error(Phase::kUsage,
                    fmt::format("row {} for table {} of {}", what, item.table, tables_.size()));
      }
      const TableSpec& table = tables_[item.table];
      if (seen_[item.table]) {
        throw Error(Phase::kUsage, fmt::format("two row {}s for table {}", what, table.name));
      }
      seen_[item.table] = true;
      if (item.values.size() != item.ids.size() * table.width) {
        throw Error(Phase::kUsage, fmt::format("row {} for table {}: {} values for {} ids", what,
                                               table.name, item.values.size(), item.ids.size()));
      }
    }
  }

  // Throws, with nothing begun, for an id that is none.
  void SplitAll(const RowGradients& gradients, const RowTargets& targets, RequestState& state) {
    for (const RowGradient& item : gradients) Split(item.table, item.ids, state);
    for (const RowTarget& item : targets) Split(item.table, item.ids, state);
  }

  void Split(size_t table, std::span<const int64_t> ids, RequestState& state) {
    if (spare_splits_.empty()) spare_splits_.push_back(std::make_unique<SplitIds>());
    try {
      spare_splits_.back()->Split(table_locations_[table].rows, ids, tables_[table].name);
    } catch (const Error& error) {
      throw Error(Phase::kUsage, error.cause(), error.remedy());
    }
    state.splits.push_back(std::move(spare_splits_.back()));
    spare_splits_.pop_back();
  }

  // In the order in which they were split.
  void AddAllRows(const RowGradients& gradients, const RowTargets& targets, RequestState& state) {
    auto split = state.splits.begin();
    for (const RowGradient& item : gradients) {
      ForEachSlice(item.table, **split++, [&](size_t server, RowsSlice slice) {
        if (slice.rows.empty() && !links_[server]->moves_all_rows()) return;
        slice.gradients = item.values.data();
        row_builders_[server].AddPush(OnceEach(server, slice, state));
      });
    }
    for (const RowTarget& item : targets) {
      ForEachSlice(item.table, **split++, [&](size_t server, RowsSlice slice) {
        if (slice.rows.empty()) return;
        slice.values = item.values.data();
        row_builders_[server].AddPull(slice);
      });
    }
  }

  template <typename Use>
  void ForEachSlice(size_t table, const SplitIds& split, Use use) {
    const std::vector<TableLocation::Part>& parts = table_locations_[table].parts;
    for (size_t i = 0; i < parts.size(); ++i) {
      RowsSlice slice;
      slice.table = parts[i].position;
      slice.width = tables_[table].width;
      slice.rows = split.RowsOf(i);
      if (parts.size() > 1) slice.positions = split.PositionsOf(i);
      use(parts[i].server, slice);
    }
  }

  // A server sums what comes in one message. A row that is in several must be in one of them.
  RowsSlice OnceEach(size_t server, const RowsSlice& push, RequestState& state) {
    if (!RowPartsBuilder::IsCut(push) || !links_[server]->sums_rows()) return push;
    return SumRepeated(push, row_summer_, state.sums.emplace_back());
  }

  void OpenIfNeeded(size_t server) {
    Link& link = *links_[server];
    if (link.opened() || link.asking()) return;
    Request request;
    request.operation = Operation::kOpen;
    request.variables = shares_[server].specs;
    request.tables = shares_[server].tables;
    link.Ask(std::move(request));
  }

  template <typename Float>
  void AddPieces(size_t variable, Float* values) {
    for (const Location& location : locations_[variable]) {
      const BlockLayout& layout = *shares_[location.server].layout;
      for (const Extent& extent : layout.OfVariable(location.position)) {
        builders_[location.server].Add(extent, values + location.first);
      }
    }
  }

  void AssignFirstValues(const Gradients& values) {
    auto state = std::make_shared<Future::State>(this);
    for (const Gradient& value : values) AddPieces(value.variable, value.values.data());
    for (size_t i = 0; i < links_.size(); ++i) {
      std::vector<RequestPart> parts = builders_[i].Take();
      if (!links_[i]->values_wanted() || parts.empty()) continue;
      links_[i]->Begin(state, Operation::kAssign, std::move(parts));
    }
    Wait(*state);
  }

  void MakeRoom() {
    WaitUntil(
        [&] {
          return std::all_of(links_.begin(), links_.end(), [](const auto& link) {
            return link->requests_under_way() < kMaxBegun;
          });
        },
        nullptr);
  }

  template <typename Use>
  void Try(Use use) {
    try {
      for (const auto& link : links_) use(*link);
    } catch (const Error&) {
      Fail(std::current_exception());
    }
  }

  // Whether a connection broke costs a system call to find out: asked before every sleep's end, but
  // not while answers come. Returns whether something was sent: then it is not the time to sleep.
  bool MoveOn(bool follow_connections) {
    bool sent = false;
    Try([&](Link& link) {
      if (follow_connections || !link.connected()) link.FollowConnection();
      sent = link.MoveOn() || sent;
    });
    try {
      return ConnectThreads() || sent;
    } catch (const Error&) {
      Fail(std::current_exception());
    }
  }

  // `state`: the request that is waited for, or nullptr for whatever the servers owe.
  template <typename Condition>
  void WaitUntil(Condition reached, const RequestState* state) {
    ThrowIfFailed();
    if (reached()) return;
    const auto begin = steady_clock::now();
    auto next_notice = begin + options_.notice_interval;
    Patience patience;
    int yields = 0;
    for (bool slept = false; true;) {
      const bool sent = MoveOn(slept);
      if (reached()) return;
      // A server that keeps up may take all of a large request like this; who waits for a small one
      // does not wait for that.
      if (sent) {
        slept = false;
        continue;
      }
      // All answered, and ZeroMQ is about to let go of the caller's memory.
      const bool only_borrowed = state != nullptr && state->servers == 0;
      if (only_borrowed && ++yields < kYieldsBeforeLook) {
        sched_yield();
        continue;
      }
      const auto now = steady_clock::now();
      if (now >= next_notice) {
        SayWhomItWaitsFor(state, duration_cast<seconds>(now - begin));
        next_notice = now + options_.notice_interval;
      }
      const auto end = patience.EndOf(now, Deadline(begin, state));
      if (now >= end) GiveUp(state);
      const auto wake = std::min(next_notice, end);
      slept = WaitForInput(only_borrowed ? std::min(wake, now + kBorrowedLook) : wake, now);
    }
  }

  // Of all servers that are waited for, the first to have been silent for too long.
  [[nodiscard]] TimePoint Deadline(TimePoint begin, const RequestState* state) const {
    TimePoint deadline = TimePoint::max();
    for (const auto& link : links_) {
      if (link->WaitsFor(state).empty()) continue;
      deadline = std::min(deadline, std::max(begin, link->last_answer()) + options_.server_timeout);
    }
    return deadline == TimePoint::max() ? begin + options_.server_timeout : deadline;
  }

  // Whether it went to sleep.
  bool WaitForInput(TimePoint until, TimePoint now) {
    const bool sleep = !SpinForInput();
    if (sleep) SleepForInput(PollTimeout(now, until));
    blocked_seconds_ += duration<double>(steady_clock::now() - now).count();
    return sleep;
  }

  bool SpinForInput() {
    const auto any = [&](auto what) {
      return std::any_of(links_.begin(), links_.end(),
                         [&](const auto& link) { return what(link->connection()); });
    };
    const auto has_arrived = [](Connection& connection) { return connection.HasArrived(); };
    return any([](const Connection& connection) { return connection.WorthSpinning(); }) &&
           shm::SpinUntil(spin_habit_, [&] { return any(has_arrived); });
  }

  void SleepForInput(int timeout) {
    poll_items_.clear();
    for (const auto& link : links_) {
      if (!link->connection().BeforePoll(poll_items_)) timeout = 0;
    }
    if (poll(poll_items_.data(), poll_items_.size(), timeout) < 0 && errno != EINTR) {
      throw Error(Phase::kInternal, WithErrno("poll", errno));
    }
    for (const auto& link : links_) link->connection().AfterPoll();
  }

  void SayWhomItWaitsFor(const RequestState* state, seconds waited) const {
    bool said = false;
    for (const auto& link : links_) {
      const std::string what = link->WaitsFor(state);
      if (what.empty()) continue;
      said = true;
      if (!link->held_for().empty()) {
        options_.say(fmt::format("waiting for {}, says {}: {} s", link->held_for(), link->name(),
                                 waited.count()));
        continue;
      }
      options_.say(fmt::format("waiting for {} ({}): {} s", link->name(), what, waited.count()));
    }
    // Each has answered: a connection broke meanwhile, and what was sent again is not read.
    if (!said) options_.say(fmt::format("waiting for a send to end: {} s", waited.count()));
  }

  [[noreturn]] void GiveUp(const RequestState* state) {
    for (const auto& link : links_) {
      const std::string what = link->WaitsFor(state);
      if (what.empty()) continue;
      const bool held = !link->held_for().empty();
      Fail(Error(Phase::kConnect,
                 fmt::format("{} has not answered for {} s ({})", link->name(),
                             duration_cast<seconds>(options_.server_timeout).count(), what),
                 held ? "start those again that it waits for; --server-timeout sets how long a "
                        "trainer waits"
                      : "--server-timeout sets how long a trainer waits"));
    }
    Fail(Error(Phase::kConnect, "a server does not read what was sent to it again"));
  }

  // Ends everything that is under way: afterwards nothing of a caller's memory is read any more.
  [[noreturn]] void Fail(std::exception_ptr error) {
    failure_ = std::move(error);
    links_.clear();
    context_.close();
    std::rethrow_exception(failure_);
  }
  [[noreturn]] void Fail(const Error& error) { Fail(std::make_exception_ptr(error)); }

  void ThrowIfFailed() const {
    if (failure_) std::rethrow_exception(failure_);
  }

  ClientOptions options_;
  std::vector<TensorSpec> variables_;
  std::vector<TableSpec> tables_;
  std::vector<size_t> floats_;  // of each variable
  std::vector<bool> seen_;      // kept for its allocation
  uint64_t id_;
  std::vector<Share> shares_;  // by server; fewer than there are when some hold nothing
  std::vector<std::vector<Location>> locations_;         // by variable, in order of its parts
  std::vector<TableLocation> table_locations_;           // by table
  std::vector<std::unique_ptr<SplitIds>> spare_splits_;  // kept for their allocations
  RowSummer row_summer_;
  zmq::context_t context_;
  std::vector<std::unique_ptr<Link>> links_;   // by server
  std::vector<uint16_t> ports_;                // the same: of threads that are not a server's first
  std::vector<PartsBuilder> builders_;         // by server
  std::vector<RowPartsBuilder> row_builders_;  // the same
  std::vector<pollfd> poll_items_;             // kept for its allocation
  shm::SpinHabit spin_habit_;
  std::exception_ptr failure_;
  double blocked_seconds_ = 0;
};

Future::Future(std::shared_ptr<State> state) : state_(std::move(state)) {}
Future::Future(Future&&) noexcept = default;

Future& Future::operator=(Future&& other) noexcept {
  Future old(std::exchange(state_, std::exchange(other.state_, nullptr)));
  return *this;
}

Future::~Future() {
  if (!state_) return;
  try {
    state_->client->Wait(*state_);
  } catch (const std::exception&) {
    // Whoever wanted to know would have waited.
  }
}

bool Future::Ready() { return state_->client->Ready(*state_); }

uint64_t Future::Wait() {
  const std::shared_ptr<State> state = std::exchange(state_, nullptr);
  return state->client->Wait(*state);
}

Gradients GradientsOf(const Tensors& tensors) {
  Gradients gradients;
  gradients.reserve(tensors.size());
  for (const Tensor& tensor : tensors) gradients.push_back({gradients.size(), tensor});
  return gradients;
}

Targets TargetsOf(Tensors& tensors) {
  Targets targets;
  targets.reserve(tensors.size());
  for (Tensor& tensor : tensors) targets.push_back({targets.size(), tensor});
  return targets;
}

Client::Client(ClientOptions options, std::vector<TensorSpec> variables,
               const std::vector<TableSpec>& tables)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(variables), tables)) {}

Client::~Client() = default;

void Client::Create(const Tensors& initial, const OptimizerSpec& optimizer,
                    const UpdateMode& update) {
  impl_->Create(initial, optimizer, update);
}

Future Client::StartPull(const Targets& targets, const RowTargets& row_targets) {
  return Future(impl_->Start({}, targets, {}, row_targets, false));
}

Future Client::StartPushPull(const Gradients& gradients, const Targets& targets,
                             const RowGradients& row_gradients, const RowTargets& row_targets) {
  return Future(impl_->Start(gradients, targets, row_gradients, row_targets, true));
}

std::string ToString(const ClientCounters& counters) {
  return fmt::format(
      "asked: {} messages, {} of them again, {} bytes sent, {} bytes received, blocked {:.1f} s",
      counters.messages, counters.sent_again, counters.sent_bytes, counters.received_bytes,
      counters.blocked_seconds);
}

size_t Client::server_count() const { return impl_->server_count(); }
ClientCounters Client::counters() const { return impl_->counters(); }

}  // namespace tfdist::runtime
