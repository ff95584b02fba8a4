#include "cli/ssh/ssh_transport.h"

#include "base/error.h"

namespace tfdist::ssh {

Session& SshTransport::Connected(TimePoint deadline) {
  if (session_ && session_->broken()) session_.reset();
  if (!session_) session_ = Session::Open(target_, deadline);
  return *session_;
}

template <typename Open>
std::unique_ptr<cli::ByteChannel> SshTransport::WithHost(Open open) {
  try {
    return open();
  } catch (Error& error) {
    error = error.WithHost(host_);
    throw;
  }
}

std::unique_ptr<cli::ByteChannel> SshTransport::OpenShell(TimePoint deadline) {
  return WithHost([&] { return Connected(deadline).OpenShell(deadline); });
}

std::unique_ptr<cli::ByteChannel> SshTransport::OpenTunnel(int port, TimePoint deadline) {
  return WithHost([&] { return Connected(deadline).OpenTunnel(port, deadline); });
}

}  // namespace tfdist::ssh
