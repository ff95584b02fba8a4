#include "runtime/ps/service.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "base/error.h"
#include "runtime/update/optimizer.h"

namespace tfdist::runtime {

std::vector<Service::Outgoing> Service::Handle(const Incoming& incoming) {
  counters_.received_bytes += SizeBytes(incoming.frames);
  std::vector<Outgoing> replies;
  uint64_t sequence = 0;
  try {
    const Request request = DecodeRequest(incoming.frames);
    sequence = request.sequence;
    replies = Answer(incoming, request);
  } catch (const Error& error) {
    replies.push_back(Refuse(incoming.peer, sequence, error.cause()));
  }
  for (const Outgoing& reply : replies) counters_.sent_bytes += SizeBytes(reply.frames);
  return replies;
}

std::vector<Service::Outgoing> Service::Answer(const Incoming& incoming, const Request& request) {
  CheckSender(incoming.peer, request);
  if (request.attempt > options_.attempt) return {};
  switch (request.operation) {
    case Operation::kCreate:
      return Create(incoming, request);
    case Operation::kPull:
      return Pull(incoming, request);
    case Operation::kPushPull:
      return PushPull(incoming, request);
  }
  return {};
}

void Service::CheckSender(const Peer& peer, const Request& request) const {
  // Without security there is no proof, and the sender's word stands.
  if (!peer.task.empty() && peer.task != request.task) {
    throw Error(Phase::kRun, "this key belongs to " + peer.task + ", not to " + request.task);
  }
  if (!options_.trainers.contains(request.task)) {
    throw Error(Phase::kRun, request.task + " is no trainer of this job");
  }
  if (request.attempt < options_.attempt) {
    throw Error(Phase::kRun, fmt::format("attempt {} is over; this server belongs to attempt {}",
                                         request.attempt, options_.attempt));
  }
}

std::vector<Service::Outgoing> Service::Create(const Incoming& incoming, const Request& request) {
  if (request.task != options_.chief) {
    throw Error(Phase::kRun, "variables are created by " + options_.chief);
  }
  if (!std::isfinite(request.learning_rate) || request.learning_rate <= 0) {
    throw Error(Phase::kRun, "the learning rate must be above 0");
  }
  store_.Create(request.variables, ReadValues(incoming.frames, request.variables),
                Optimizer({.kind = OptimizerKind::kSgd, .learning_rate = request.learning_rate}));
  std::vector<Outgoing> replies;
  replies.push_back(Acknowledge(incoming.peer, request.sequence));
  for (const auto& [task, waiting] : std::exchange(waiting_, {})) {
    replies.push_back(Values(waiting.peer, waiting.sequence));
  }
  return replies;
}

std::vector<Service::Outgoing> Service::Pull(const Incoming& incoming, const Request& request) {
  std::vector<Outgoing> replies;
  if (store_.created()) {
    replies.push_back(Values(incoming.peer, request.sequence));
  } else {
    waiting_[request.task] = {incoming.peer, request.sequence};
  }
  return replies;
}

std::vector<Service::Outgoing> Service::PushPull(const Incoming& incoming, const Request& request) {
  if (!store_.created()) {
    throw Error(Phase::kRun, "the variables are gone: this server was started again");
  }
  // Sent again after a broken connection: applied once, answered again.
  if (!IsApplied(request)) {
    store_.Push(request.variables, ReadValues(incoming.frames, request.variables));
    applied_[request.task] = {request.run, request.sequence};
    ++counters_.pushes;
  }
  std::vector<Outgoing> replies;
  replies.push_back(Values(incoming.peer, request.sequence));
  return replies;
}

bool Service::IsApplied(const Request& request) const {
  const auto last = applied_.find(request.task);
  return last != applied_.end() && last->second.run == request.run &&
         request.sequence <= last->second.sequence;
}

Service::Outgoing Service::Acknowledge(const Peer& peer, uint64_t sequence) {
  Reply reply;
  reply.sequence = sequence;
  reply.step = store_.step();
  return {peer, Encode(reply, {})};
}

Service::Outgoing Service::Values(const Peer& peer, uint64_t sequence) {
  ++counters_.pulls;
  Reply reply;
  reply.sequence = sequence;
  reply.step = store_.step();
  reply.variables = store_.specs();
  return {peer, Encode(reply, ViewsOf(store_.values()))};
}

Service::Outgoing Service::Refuse(const Peer& peer, uint64_t sequence, const std::string& why) {
  ++counters_.refused;
  Reply reply;
  reply.status = Status::kRefused;
  reply.sequence = sequence;
  reply.step = store_.step();
  reply.error = why;
  return {peer, Encode(reply, {})};
}

}  // namespace tfdist::runtime
