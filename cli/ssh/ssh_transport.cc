#include "cli/ssh/ssh_transport.h"

#include "base/error.h"

namespace tfdist::ssh {

std::unique_ptr<cli::ByteChannel> SshTransport::OpenShell(TimePoint deadline) {
  try {
    if (session_ && session_->broken()) session_.reset();
    if (!session_) session_ = Session::Open(target_, deadline);
    return session_->OpenShell(deadline);
  } catch (Error& error) {
    error = error.WithHost(host_);
    throw;
  }
}

}  // namespace tfdist::ssh
