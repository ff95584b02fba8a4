#include "cli/channel/local_transport.h"

#include <fmt/format.h>

#include "base/descriptor_limit.h"
#include "base/error.h"
#include "cli/channel/child_channel.h"

namespace tfdist::cli {
namespace {

// Tasks are the shell's descendants, and get the limit that they would have without tfdist.
std::vector<std::string> ShellCommand() {
  return {"/bin/sh", "-c",
          fmt::format("ulimit -S -n {} 2>/dev/null; exec /bin/sh", InheritedDescriptorLimit())};
}

}  // namespace

std::unique_ptr<ByteChannel> LocalTransport::OpenShell(
    TimePoint& /*deadline: nothing to wait for*/) {
  try {
    return OpenChildChannel(ShellCommand());
  } catch (Error& error) {
    error = error.WithHost(host_);
    throw;
  }
}

}  // namespace tfdist::cli
