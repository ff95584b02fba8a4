#include "runtime/client.h"

#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>
#include <exception>
#include <utility>
#include <zmq.hpp>

#include "base/error.h"
#include "runtime/client/link.h"
#include "runtime/client/request.h"
#include "runtime/client/request_builder.h"
#include "runtime/client/sharding.h"
#include "runtime/client/waiter.h"
#include "runtime/common/cluster.h"
#include "runtime/transport/no_connection.h"
#include "runtime/transport/shm_connection.h"
#include "runtime/transport/zmq_connection.h"

namespace tfdist::runtime {
namespace {

// Leaves room below what a server remembers of a client.
constexpr uint64_t kMaxBegun = kMaxRequestsUnderWay - 24;
// Its own, its monitor's two ends.
constexpr size_t kSocketsPerLink = 3;

// Tells the requests of this start of the task from those of an earlier one.
uint64_t RandomClient() {
  uint64_t client = 0;
  randombytes_buf(&client, sizeof client);
  return client;
}

ClientOptions Checked(ClientOptions options) {
  CheckServerThreads(options.server_threads);
  return options;
}

}  // namespace

struct Future::State : RequestState {
  explicit State(Client::Impl* the_client) : client(the_client) {}
  Client::Impl* client;
};

class Client::Impl {
 public:
  enum class Kind { kPull, kPush, kStep };

  Impl(ClientOptions options, std::vector<TensorSpec> variables, std::vector<TableSpec> tables)
      : options_(Checked(std::move(options))),
        id_(RandomClient()),
        sharding_(std::move(variables), std::move(tables),
                  ServersOf(options_.config.cluster).size(), options_.server_threads,
                  options_.strategy, options_.partitioner),
        waiter_(options_, links_) {
    const size_t servers = sharding_.shares().size();
    context_.set(zmq::ctxopt::max_sockets, static_cast<int>(kSocketsPerLink * servers + 8));
    for (size_t i = 0; i < servers; ++i) links_.push_back(OpenLink(i));
    ports_.resize(servers);
    std::vector<const ServerFacts*> facts;
    for (const auto& link : links_) facts.push_back(&link->facts());
    builder_.emplace(sharding_, std::move(facts));
  }

  // No trainer waits for one that says goodbye. Where that does not arrive this trainer is lost: with
  // synchronous updates the others wait for it, as it may come back.
  ~Impl() {
    try {
      for (const auto& link : links_) link->SayGoodbye();
    } catch (const std::exception&) {
      // The servers find out by themselves.
    }
  }

  std::optional<size_t> Create(const Tensors& initial, const OptimizerSpec& optimizer,
                               const UpdateMode& update,
                               const std::vector<RestoreSpec>& checkpoints) {
    ThrowIfFailed();
    Check(optimizer, Phase::kUsage);
    Gradients values = GradientsOf(initial);
    builder_->Check(values, "value");
    if (values.size() != sharding_.variables().size()) {
      throw Error(Phase::kUsage, "a first value is needed for every variable");
    }
    AskForCreation(optimizer, update, !checkpoints.empty());
    SayOrThrowIfThereAlready();
    const auto is_new = [](const auto& link) { return link->facts().is_new; };
    if (!checkpoints.empty()) {
      if (std::all_of(links_.begin(), links_.end(), is_new)) return RestoreOneOf(checkpoints);
      // Others have first values, which nothing was learnt with.
      AskForCreation(optimizer, update, false);
    }
    AssignFirstValues(values);
    return std::nullopt;
  }

  void StartSave(const SaveSpec& save) {
    ThrowIfFailed();
    if (saving_) throw Error(Phase::kUsage, "a checkpoint is being written");
    saving_ = true;
    for (size_t i = 0; i < links_.size(); ++i) {
      Request request = AboutCheckpoint(Operation::kSave, i, save.number, save.id);
      request.checkpoint.of = static_cast<uint32_t>(links_.size());
      request.checkpoint.kept = save.kept;
      links_[i]->Ask(std::move(request));
    }
    Try([](Link& link) { link.SendWhatMayBe(); });
  }

  std::optional<Saved> TakeSaved() {
    ThrowIfFailed();
    if (!saving_ || std::any_of(links_.begin(), links_.end(), Asking)) return std::nullopt;
    saving_ = false;
    Saved saved{links_.front()->checkpoint_answer().saved_step, {}, {}};
    for (const auto& link : links_) saved.shards.push_back(link->checkpoint_answer().saved);
    saved.failure = RefusalOfCheckpoint();
    return saved;
  }

  Saved WaitForSave() {
    WaitForAnswers();
    return TakeSaved().value();
  }

  std::shared_ptr<Future::State> Start(const Gradients& gradients, const Targets& targets,
                                       const RowGradients& row_gradients,
                                       const RowTargets& row_targets, Kind kind,
                                       TakeValues take = {}) {
    ThrowIfFailed();
    if (step_) throw Error(Phase::kUsage, "gradients of a step are still to be given");
    builder_->Check(gradients, targets, row_gradients, row_targets);
    for (size_t i = 0; i < links_.size(); ++i) OpenIfNeeded(i);
    const bool is_push = kind != Kind::kPull;
    if (is_push) WaitUntil([&] { return AllOpened(); }, nullptr);
    MakeRoom();
    auto state = std::make_shared<Future::State>(this);
    state->take = std::move(take);
    if (kind == Kind::kStep) ExpectLater(gradients, *state);
    state->is_push = is_push;
    if (is_push) state->own_step = CountOwnStep();
    state->next_step = is_push ? links_.front()->facts().step + 1 : 0;
    builder_->Add(gradients, targets, row_gradients, row_targets, *state);
    for (size_t i = 0; i < links_.size(); ++i) {
      std::vector<RequestPart> parts = builder_->Take(i);
      // ps:0 counts the steps; where trainers wait for each other all servers with variables do.
      const bool counts =
          i == 0 || (links_[i]->facts().holds_back && sharding_.shares()[i].bytes > 0);
      if (parts.empty() && is_push && counts) parts.emplace_back();
      if (!parts.empty()) links_[i]->Begin(state, Operation::kExchange, std::move(parts));
    }
    if (state->lacking > 0) step_ = state;
    Try([](Link& link) { link.SendWhatMayBe(); });
    return state;
  }

  void GiveGradients(Future::State& state, size_t first, size_t count) {
    ThrowIfFailed();
    for (size_t variable = first; variable < first + count; ++variable) TakeUpTo(state, variable);
    SendWhatHasItsGradients(state);
  }

  void GiveGradientUpTo(Future::State& state, size_t variable, size_t floats) {
    ThrowIfFailed();
    TakeUpTo(state, variable, floats);
    SendWhatHasItsGradients(state);
  }

  // Throws the request's refusal, and leaves it for Wait too.
  void WaitForValues(const Future::State& state, size_t first, size_t count) {
    if (first + count > state.values_due.size()) {
      throw Error(Phase::kUsage, fmt::format("no value of variable {} is due", first));
    }
    const auto are_there = [&] {
      return std::all_of(state.values_due.begin() + static_cast<ptrdiff_t>(first),
                         state.values_due.begin() + static_cast<ptrdiff_t>(first + count),
                         [](size_t due) { return due == 0; });
    };
    WaitUntil([&] { return state.refusal || are_there(); }, &state);
    if (state.refusal) throw Refusal(*state.refusal);
  }

  // The caller gives no more gradients: what servers hold of this step can never become whole.
  void BreakOff(const Future::State& state) {
    if (state.lacking == 0 || failure_) return;
    Fail(Error(Phase::kRun, "a step was broken off before all of its gradients were there"));
  }

  // Returns when the request has ended, however; throws when the client has failed.
  uint64_t Wait(Future::State& state) {
    if (state.lacking > 0)
      throw Error(Phase::kUsage, "gradients of the step are still to be given");
    WaitUntil([&] { return state.ended(); }, &state);
    builder_->Recycle(state);
    if (state.refusal) throw Refusal(*state.refusal);
    return links_.front()->facts().step;
  }

  bool Ready(const Future::State& state) {
    try {
      if (!failure_) MoveOn(true);
    } catch (const Error&) {
      // Wait() throws it again.
    }
    return failure_ || state.ended();
  }

  void EndTraining() {
    WaitForAnswers();
    for (const auto& link : links_) {
      Request request;
      request.operation = Operation::kEnd;
      link->Ask(std::move(request));
    }
    WaitForAnswers();
  }

  [[nodiscard]] bool training_is_over() const {
    return std::any_of(links_.begin(), links_.end(),
                       [](const auto& link) { return link->facts().is_over; });
  }

  std::vector<ServerLoad> TakeLoads() {
    std::vector<ServerLoad> loads(server_count());
    for (size_t i = 0; i < links_.size(); ++i) {
      const ServerFacts& facts = links_[i]->facts();
      ServerLoad& load = loads[i / options_.server_threads];
      load.longest_queue = std::max<uint64_t>(load.longest_queue, facts.longest_queue);
      load.most_held += facts.most_held;
      load.idle_seconds += static_cast<double>(facts.idle_microseconds) / 1e6 /
                           static_cast<double>(options_.server_threads);
      load.replied = std::max(load.replied, facts.last_answer);
      links_[i]->ForgetLoad();
    }
    return loads;
  }

  [[nodiscard]] size_t server_count() const {
    return (sharding_.shares().size() + options_.server_threads - 1) / options_.server_threads;
  }

  [[nodiscard]] ClientCounters counters() const {
    ClientCounters counters;
    for (const auto& link : links_) {
      counters.sent_bytes += link->counters().sent_bytes;
      counters.received_bytes += link->counters().received_bytes;
      counters.messages += link->counters().messages;
      counters.sent_again += link->counters().sent_again;
    }
    counters.blocked_seconds = waiter_.blocked_seconds();
    return counters;
  }

  [[nodiscard]] std::vector<ServerTraffic> traffic() const {
    std::vector<ServerTraffic> traffic(server_count());
    for (size_t i = 0; i < links_.size(); ++i) {
      ServerTraffic& server = traffic[i / options_.server_threads];
      server.server = ToString(TaskOf(i));
      server.held_bytes += sharding_.shares()[i].bytes;
      server.sent_bytes += links_[i]->counters().sent_bytes;
      server.received_bytes += links_[i]->counters().received_bytes;
    }
    return traffic;
  }

 private:
  void ExpectLater(const Gradients& gradients, RequestState& state) const {
    state.lacks.resize(sharding_.variables().size());
    state.values_due.resize(sharding_.variables().size());
    for (const Gradient& gradient : gradients)
      state.lacks[gradient.variable] = gradient.values.size();
    state.lacking = gradients.size();
  }

  // nullopt: all of them.
  void TakeUpTo(RequestState& state, size_t variable,
                std::optional<size_t> floats = std::nullopt) const {
    const size_t lacks = variable < state.lacks.size() ? state.lacks[variable] : 0;
    if (lacks == 0) {
      throw Error(Phase::kUsage, fmt::format("no gradient of variable {} is due", variable));
    }
    const size_t of = sharding_.FloatsOf(variable);
    if (floats && (*floats > of || of - *floats > lacks)) {
      throw Error(Phase::kUsage, fmt::format("{} of the {} floats of variable {}'s gradient are "
                                             "given after {}",
                                             *floats, of, variable, of - lacks));
    }
    state.lacks[variable] = floats ? of - *floats : 0;
    if (state.lacks[variable] == 0) --state.lacking;
  }

  void SendWhatHasItsGradients(const RequestState& state) {
    if (state.lacking == 0) step_.reset();
    for (const auto& link : links_) link->Release(state);
    MoveOn(false);
  }

  // Of the push that is begun now; nullopt where the servers count.
  std::optional<uint64_t> CountOwnStep() {
    if (!links_.front()->facts().own_steps) return std::nullopt;
    for (const auto& link : links_) own_steps_ = std::max(own_steps_, link->facts().local_step);
    return own_steps_++;
  }

  [[nodiscard]] bool AllOpened() const {
    return std::all_of(links_.begin(), links_.end(),
                       [](const auto& link) { return link->facts().opened(); });
  }

  // Trained values beside first ones would be no model.
  void SayOrThrowIfThereAlready() {
    const auto by_steps = [](const auto& a, const auto& b) {
      return a->facts().step < b->facts().step;
    };
    const auto is_new = [](const auto& link) { return link->facts().is_new; };
    const Link& oldest = **std::max_element(links_.begin(), links_.end(), by_steps);
    const auto fresh = std::find_if(links_.begin(), links_.end(), is_new);
    if (fresh == links_.end()) {
      options_.say(
          fmt::format("the variables are there already, at step {}: they keep their "
                      "values, their optimizer and their mode of updates",
                      links_.front()->facts().step));
    } else if (oldest.facts().step > 0) {
      Fail(Error(Phase::kRun,
                 fmt::format("{} was restarted: it has no variables, and those of {} are at "
                             "step {}",
                             (*fresh)->name(), oldest.name(), oldest.facts().step),
                 kRestartJob));
    }
  }

  void WaitForAnswers() {
    WaitUntil([&] { return std::none_of(links_.begin(), links_.end(), Asking); }, nullptr);
  }

  void AskForCreation(const OptimizerSpec& optimizer, const UpdateMode& update, bool restores) {
    for (size_t i = 0; i < links_.size(); ++i) {
      Request request;
      request.operation = Operation::kCreate;
      request.optimizer = ToString(optimizer);
      request.update_mode = ToString(update);
      request.variables = sharding_.shares()[i].specs;
      request.tables = sharding_.shares()[i].tables;
      request.restores = restores;
      links_[i]->Ask(std::move(request));
    }
    WaitForAnswers();
  }

  size_t RestoreOneOf(const std::vector<RestoreSpec>& checkpoints) {
    std::optional<Refusal> first;
    for (size_t i = 0; i < checkpoints.size(); ++i) {
      const uint64_t id = RandomClient();
      std::optional<Refusal> refusal = AskAllToRestore(checkpoints[i], id, RestorePhase::kLoad);
      if (!refusal) refusal = AskAllToRestore(checkpoints[i], id, RestorePhase::kUse);
      if (!refusal) return i;
      // Of another optimizer or model: the ones before are so too.
      if (refusal->kind() == RefusalKind::kMismatch) Fail(std::make_exception_ptr(*refusal));
      options_.say(fmt::format("{} is not used: {}", checkpoints[i].name, refusal->cause()));
      if (!first) first = refusal;
    }
    Fail(Error(Phase::kRun,
               fmt::format("none of {} checkpoints can be restored; the newest: {}",
                           checkpoints.size(), first->cause()),
               first->remedy().empty() ? "another --checkpoint-dir begins anew" : first->remedy()));
  }

  std::optional<Refusal> AskAllToRestore(const RestoreSpec& checkpoint, uint64_t id,
                                         RestorePhase phase) {
    for (size_t i = 0; i < links_.size(); ++i) {
      Request request = AboutCheckpoint(Operation::kRestore, i, checkpoint.number, id);
      request.checkpoint.phase = phase;
      request.checkpoint.step = checkpoint.step;
      request.checkpoint.values_only = checkpoint.values_only;
      request.checkpoint.shards = checkpoint.shards;
      links_[i]->Ask(std::move(request));
    }
    WaitForAnswers();
    return RefusalOfCheckpoint();
  }

  Request AboutCheckpoint(Operation operation, size_t server, uint64_t number, uint64_t id) const {
    Request request;
    request.operation = operation;
    request.checkpoint.number = number;
    request.checkpoint.id = id;
    request.checkpoint.shard = static_cast<uint32_t>(server);
    request.checkpoint.origins = sharding_.OriginsOf(server);
    return request;
  }

  // Of the first server that has refused what all were asked.
  [[nodiscard]] std::optional<Refusal> RefusalOfCheckpoint() const {
    for (const auto& link : links_) {
      const Reply& answer = link->checkpoint_answer();
      if (answer.status == Status::kRefused) return RefusalOf(answer, link->name());
    }
    return std::nullopt;
  }

  static bool Asking(const std::unique_ptr<Link>& link) { return link->asking(); }

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
    return std::make_unique<ShmConnection>(name, std::move(remote), options_.say, options_.memory);
  }

  // To threads whose server has said where they listen, for the first time or after its restart.
  // Returns whether there was one.
  bool ConnectThreads() {
    bool connected = false;
    const size_t threads = options_.server_threads;
    for (size_t first = 0; first < links_.size(); first += threads) {
      const auto& ports = links_[first]->facts().ports;
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

  void OpenIfNeeded(size_t server) {
    Link& link = *links_[server];
    if (link.facts().opened() || link.asking()) return;
    Request request;
    request.operation = Operation::kOpen;
    request.variables = sharding_.shares()[server].specs;
    request.tables = sharding_.shares()[server].tables;
    link.Ask(std::move(request));
  }

  void AssignFirstValues(const Gradients& values) {
    auto state = std::make_shared<Future::State>(this);
    builder_->Add(values);
    for (size_t i = 0; i < links_.size(); ++i) {
      std::vector<RequestPart> parts = builder_->Take(i);
      if (!links_[i]->facts().values_wanted || parts.empty()) continue;
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
    runtime::Wait wait = waiter_.Begin(state);
    for (bool slept = false; true;) {
      const bool sent = MoveOn(slept);
      if (reached()) return;
      // A server that keeps up may take all of a large request like this; a caller that waits for a
      // small one does not wait for that.
      if (sent) {
        slept = false;
        continue;
      }
      if (const std::optional<Error> late = waiter_.Continue(wait, slept)) Fail(*late);
    }
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
  uint64_t id_;
  Sharding sharding_;
  zmq::context_t context_;
  std::vector<std::unique_ptr<Link>> links_;  // by server
  std::vector<uint16_t> ports_;               // the same: of threads that are not a server's first
  std::optional<RequestBuilder> builder_;
  Waiter waiter_;
  uint64_t own_steps_ = 0;                    // where ServerFacts::own_steps
  std::shared_ptr<const RequestState> step_;  // that lacks gradients
  bool saving_ = false;
  std::exception_ptr failure_;
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
    state_->client->BreakOff(*state_);
    state_->client->Wait(*state_);
  } catch (const std::exception&) {
    // A caller that wants the error waits.
  }
}

bool Future::Ready() { return state_->client->Ready(*state_); }

void Future::GiveGradients(size_t first, size_t count) {
  state_->client->GiveGradients(*state_, first, count);
}

void Future::GiveGradientUpTo(size_t variable, size_t floats) {
  state_->client->GiveGradientUpTo(*state_, variable, floats);
}

void Future::WaitForValues(size_t first, size_t count) {
  state_->client->WaitForValues(*state_, first, count);
}

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
  (void)impl_->Create(initial, optimizer, update, {});
}

std::optional<size_t> Client::Restore(const std::vector<RestoreSpec>& checkpoints,
                                      const Tensors& initial, const OptimizerSpec& optimizer,
                                      const UpdateMode& update) {
  return impl_->Create(initial, optimizer, update, checkpoints);
}

void Client::StartSave(const SaveSpec& save) { impl_->StartSave(save); }

std::optional<Saved> Client::TakeSaved() { return impl_->TakeSaved(); }

Saved Client::WaitForSave() { return impl_->WaitForSave(); }

Future Client::StartPull(const Targets& targets, const RowTargets& row_targets) {
  return Future(impl_->Start({}, targets, {}, row_targets, Impl::Kind::kPull));
}

Future Client::StartPushPull(const Gradients& gradients, const Targets& targets,
                             const RowGradients& row_gradients, const RowTargets& row_targets) {
  return Future(impl_->Start(gradients, targets, row_gradients, row_targets, Impl::Kind::kPush));
}

Future Client::StartStep(const Gradients& gradients, const Targets& targets, TakeValues take) {
  return Future(impl_->Start(gradients, targets, {}, {}, Impl::Kind::kStep, std::move(take)));
}

std::string ToString(const ClientCounters& counters) {
  return fmt::format(
      "asked: {} messages, {} of them again, {} bytes sent, {} bytes received, blocked {:.1f} s",
      counters.messages, counters.sent_again, counters.sent_bytes, counters.received_bytes,
      counters.blocked_seconds);
}

size_t Client::server_count() const { return impl_->server_count(); }
ClientCounters Client::counters() const { return impl_->counters(); }

void Client::EndTraining() { impl_->EndTraining(); }
bool Client::training_is_over() const { return impl_->training_is_over(); }

std::vector<ServerLoad> Client::TakeLoads() { return impl_->TakeLoads(); }

std::vector<ServerTraffic> Client::traffic() const { return impl_->traffic(); }

}  // namespace tfdist::runtime
