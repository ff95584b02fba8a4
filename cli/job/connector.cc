#include "cli/job/connector.h"

#include <utility>

#include "cli/channel/local_transport.h"
#include "cli/link/bootstrap.h"
#include "cli/ssh/openssh/openssh_masters.h"
#include "cli/ssh/ssh_transport.h"

namespace tfdist::cli {
namespace {

ssh::Target TargetOf(const HostPlan& host, const SshOptions& options) {
  return {.name = host.ssh,
          .user = host.ssh_user.empty() ? options.user : host.ssh_user,
          .port = host.ssh_port ? host.ssh_port : options.port,
          .identity_file = options.identity_file,
          .config = options.config,
          .accept_new = options.host_keys == "accept-new",
          .openssh = (host.transport.empty() ? options.transport : host.transport) == "openssh",
          .limits = {},
          .on_step = {}};
}

}  // namespace

std::unique_ptr<Transport> MakeTransport(const HostPlan& host, const SshOptions& ssh,
                                         std::function<void(const char*)> on_step) {
  if (host.local) return std::make_unique<LocalTransport>(host.name);
  ssh::Target target = TargetOf(host, ssh);
  target.on_step = std::move(on_step);
  return ssh::MakeSshTransport(host.name, std::move(target));
}

void EndConnections() { ssh::EndMasters(); }

Tunnels::Tunnels(const HostPlan& host, const SshOptions& ssh)
    : transport_(ssh::MakeSshTransport(host.name, TargetOf(host, ssh))) {}

Tunnels::~Tunnels() = default;

std::unique_ptr<ByteChannel> Tunnels::Open(int port, TimePoint deadline) {
  return transport_->OpenTunnel(port, deadline);
}

Attached Attach(const JobRecord& record, int slot, TimePoint deadline) {
  const HostPlan& host = record.hosts.at(static_cast<size_t>(slot));
  try {
    Attached attached;
    attached.transport = MakeTransport(host, record.ssh);
    BootedAgent booted = AttachAgent(attached.transport->OpenShell(deadline), BaseOf(record, slot),
                                     record.id, slot, deadline);
    attached.link = std::make_unique<AgentLink>(std::move(booted.channel));
    attached.hello = attached.link->ReadHello(deadline);
    return attached;
  } catch (Error& error) {
    if (error.host().empty()) error = error.WithHost(host.name);
    throw;
  }
}

}  // namespace tfdist::cli
