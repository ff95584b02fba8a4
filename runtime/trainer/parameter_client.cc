#include "runtime/trainer/parameter_client.h"

#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "runtime/cluster.h"
#include "runtime/placement/placement.h"

namespace tfdist::runtime {
namespace {

using std::chrono::duration_cast;
using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

// Tells the requests of this start of the task from those of an earlier one.
uint64_t RandomRun() {
  uint64_t run = 0;
  randombytes_buf(&run, sizeof run);
  return run;
}

std::unique_ptr<Channel> OpenChannel(zmq::context_t& context, const TfConfig& config,
                                     const TaskId& server, const std::optional<JobSecret>& secret) {
  const std::string address = ToString(AddressOf(config.cluster, server));
  std::optional<ClientKeys> keys;
  if (secret) keys = KeysOfClient(*secret, config.task, server);
  return std::make_unique<Channel>(context, ToString(server) + " at " + address, "tcp://" + address,
                                   keys);
}

void CheckSameVariables(const std::string& server, const std::vector<TensorSpec>& there,
                        const std::vector<TensorSpec>& here) {
  if (there == here) return;
  const auto [theirs, ours] = std::mismatch(there.begin(), there.end(), here.begin(), here.end());
  const std::string difference =
      theirs == there.end() || ours == here.end()
          ? fmt::format("{} variables, this model {}", there.size(), here.size())
          : fmt::format("{}, this model {}", ToString(*theirs), ToString(*ours));
  throw Error(Phase::kRun, server + " has " + difference,
              "give every trainer the same --model, --hidden and --data");
}

// Round robin, and no variable split.
Placement PlaceWhole(const std::vector<TensorSpec>& specs, size_t server_count) {
  std::vector<Variable> variables;
  for (const TensorSpec& spec : specs) variables.push_back({.spec = spec});
  return Place(variables, server_count, Strategy::kRoundRobin);
}

}  // namespace

ParameterClient::ParameterClient(const TfConfig& config, const std::optional<JobSecret>& secret,
                                 std::vector<TensorSpec> variables, ParameterClientOptions options,
                                 Say say)
    : options_(options), say_(std::move(say)), task_(ToString(config.task)), run_(RandomRun()) {
  const std::vector<TaskId> tasks = ServersOf(config.cluster);
  const std::vector<std::vector<PartId>> parts =
      PartsOfServers(PlaceWhole(variables, tasks.size()));
  for (size_t i = 0; i < tasks.size(); ++i) {
    if (i > 0 && parts[i].empty()) break;  // more servers than variables
    Server& server = servers_.emplace_back();
    server.channel = OpenChannel(context_, config, tasks[i], secret);
    for (const PartId& part : parts[i]) {
      server.held.push_back(part.variable);
      server.variables.push_back(variables[part.variable]);
    }
    poll_items_.push_back({server.channel->socket().handle(), 0, ZMQ_POLLIN, 0});
    poll_items_.push_back({server.channel->monitor().handle(), 0, ZMQ_POLLIN, 0});
  }
}

void ParameterClient::Create(const Tensors& initial, float learning_rate) {
  for (Server& server : servers_) {
    Request request = NewRequest(Operation::kCreate);
    request.learning_rate = learning_rate;
    request.variables = server.variables;
    Start(server, std::move(request), initial, "creation of the variables");
  }
  FinishAll(nullptr);
}

uint64_t ParameterClient::Pull(Tensors& values) {
  for (Server& server : servers_) {
    server.channel->Start(NewRequest(Operation::kPull), {}, "variables, which the chief creates");
  }
  return FinishAll(&values);
}

uint64_t ParameterClient::PushPull(const Tensors& gradients, Tensors& values) {
  const std::string purpose = fmt::format("reply to step {}", step_ + 1);
  for (Server& server : servers_) {
    Request request = NewRequest(Operation::kPushPull);
    request.variables = server.variables;
    Start(server, std::move(request), gradients, purpose);
  }
  return FinishAll(&values);
}

Request ParameterClient::NewRequest(Operation operation) const {
  Request request;
  request.operation = operation;
  request.attempt = options_.attempt;
  request.run = run_;
  request.task = task_;
  return request;
}

void ParameterClient::Start(Server& server, Request request, const Tensors& tensors,
                            const std::string& purpose) {
  TensorViews values;
  for (const size_t position : server.held) values.emplace_back(tensors[position]);
  server.channel->Start(std::move(request), values, purpose);
}

uint64_t ParameterClient::FinishAll(Tensors* values) {
  const auto begin = steady_clock::now();
  auto next_notice = begin + options_.notice_interval;
  const auto deadline = begin + options_.server_timeout;
  uint64_t step = step_;
  while (true) {
    for (Server& server : servers_) TakeAnswer(server, values, step);
    if (!AnyBusy()) break;
    const auto now = steady_clock::now();
    if (now >= deadline) GiveUp();
    if (now >= next_notice) {
      SayWhomItWaitsFor(duration_cast<seconds>(now - begin));
      next_notice += options_.notice_interval;
    }
    WaitForInput(std::chrono::ceil<milliseconds>(std::min(next_notice, deadline) - now));
  }
  step_ = step;
  return step;
}

void ParameterClient::TakeAnswer(Server& server, Tensors* values, uint64_t& step) {
  if (!server.channel->busy()) return;
  const std::optional<Channel::Answer> answer = server.channel->TakeAnswer();
  if (!answer) return;
  if (&server == &servers_.front()) step = answer->reply.step;
  if (values == nullptr) return;
  CheckSameVariables(server.channel->name(), answer->reply.variables, server.variables);
  MutableTensorViews into;
  for (const size_t position : server.held) into.emplace_back((*values)[position]);
  CopyValues(answer->frames, into);
}

bool ParameterClient::AnyBusy() const {
  return std::any_of(servers_.begin(), servers_.end(),
                     [](const Server& server) { return server.channel->busy(); });
}

void ParameterClient::WaitForInput(milliseconds limit) {
  Poll(poll_items_, std::max(limit, milliseconds(1)));
}

void ParameterClient::SayWhomItWaitsFor(seconds waited) const {
  for (const Server& server : servers_) {
    if (!server.channel->busy()) continue;
    say_(fmt::format("waiting for {} ({}): {} s", server.channel->name(),
                     server.channel->WaitsFor(), waited.count()));
  }
}

void ParameterClient::GiveUp() const {
  for (const Server& server : servers_) {
    if (!server.channel->busy()) continue;
    throw Error(Phase::kConnect,
                fmt::format("{} has not answered for {} s ({})", server.channel->name(),
                            duration_cast<seconds>(options_.server_timeout).count(),
                            server.channel->WaitsFor()),
                "--server-timeout sets how long a trainer waits");
  }
  throw Error(Phase::kInternal, "waited for nobody");
}

}  // namespace tfdist::runtime
