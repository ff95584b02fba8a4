// From a host of the plan to a conversation with the job's agent there.
#pragma once

#include <memory>

#include "base/failures.h"
#include "cli/job/job_record.h"
#include "cli/link/agent_link.h"
#include "cli/link/byte_channel.h"

namespace tfdist::cli {

// Nothing is opened yet. Throws nothing.
std::unique_ptr<Transport> MakeTransport(const HostPlan& host, const SshOptions& ssh);

// Attaches to the job's agent in `slot`, or to its folder when no agent runs any more (see
// Hello::serving). Throws Error with the host; NothingThere (bootstrap.h) when it has no such job.
struct Attached {
  std::unique_ptr<Transport> transport;  // must outlive the link
  protocol::Hello hello;
  std::unique_ptr<AgentLink> link;
};
Attached Attach(const JobRecord& record, int slot, TimePoint deadline);

// An agent that leaves hangs up on a client that has just come. The second time there is its folder, or
// the agent that follows.
template <typename Ask>
auto AskAgainWhenCutOff(TimePoint deadline, Ask ask) {
  try {
    return ask();
  } catch (const LostConnection&) {
    if (SystemClock().Now() >= deadline) throw;
  }
  return ask();
}

}  // namespace tfdist::cli
