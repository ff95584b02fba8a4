#include "cli/ssh/ssh_transport.h"

#include "base/error.h"

namespace tfdist::ssh {

SshTransport::SshTransport(std::string host, std::string name, const cli::SshOptions& options)
    : SshTransport(std::move(host), Target{.name = std::move(name),
                                           .user = options.user,
                                           .port = options.port,
                                           .identity_file = options.identity_file,
                                           .config = options.config,
                                           .accept_new = options.host_keys == "accept-new",
                                           .limits = {}}) {}

std::unique_ptr<cli::ByteChannel> SshTransport::OpenShell(TimePoint deadline) {
  try {
    if (session_ && session_->broken()) session_.reset();
    if (!session_) session_ = Session::Open(target_, deadline);
    return session_->OpenShell(deadline);
  } catch (const Error& error) {
    throw error.WithHost(host_);
  }
}

}  // namespace tfdist::ssh
