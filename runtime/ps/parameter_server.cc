#include "runtime/ps/parameter_server.h"

#include <fmt/format.h>

#include <utility>

#include "runtime/cluster.h"
#include "runtime/ps/listen_address.h"

namespace tfdist::runtime {
namespace {

std::optional<ServerKeys> Keys(const TfConfig& config, const std::optional<JobSecret>& secret) {
  if (!secret) return std::nullopt;
  return KeysOfServer(*secret, config.task, TrainersOf(config.cluster));
}

ServiceOptions OptionsOf(const TfConfig& config, uint32_t attempt) {
  ServiceOptions options{attempt, {}, {}};
  for (const TaskId& trainer : TrainersOf(config.cluster)) {
    options.trainers.insert(ToString(trainer));
  }
  if (const auto chief = ChiefOf(config.cluster)) options.chief = ToString(*chief);
  return options;
}

std::string Endpoint(const TfConfig& config, bool secure, const Say& say) {
  const ListenAddress listen = ChooseListenAddress(AddressOf(config.cluster, config.task), secure);
  if (!listen.remark.empty()) say(listen.remark);
  return listen.endpoint;
}

}  // namespace

ParameterServer::ParameterServer(const TfConfig& config, const std::optional<JobSecret>& secret,
                                 uint32_t attempt, const Say& say)
    : say_(say),
      socket_(Endpoint(config, secret.has_value(), say), Keys(config, secret)),
      service_(OptionsOf(config, attempt)) {
  say_(fmt::format("{} listens at {}, security {}", ToString(config.task), socket_.Endpoint(),
                   secret ? "curve" : "none"));
}

void ParameterServer::Run(int stop_fd) {
  while (std::optional<Incoming> incoming = socket_.Receive(stop_fd)) {
    for (Service::Outgoing& reply : service_.Handle(*incoming)) {
      socket_.Send(reply.to, std::move(reply.frames));
    }
  }
  const ServiceCounters& served = service_.counters();
  say_(fmt::format("served: {} pulls, {} pushes, {} bytes received, {} bytes sent, {} refused",
                   served.pulls, served.pushes, served.received_bytes, served.sent_bytes,
                   served.refused));
}

}  // namespace tfdist::runtime
