// A node of an allocation of Slurm: /bin/sh in a step of it (srun(1)), without SSH.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/failures.h"
#include "cli/channel/byte_channel.h"

namespace tfdist::cli {

struct SlurmNode {
  std::string job;   // the allocation's number
  std::string name;  // NodeName
};

// Slurm ends all processes of an allocation with it.
class AllocationEnded : public Unreachable {
 public:
  using Unreachable::Unreachable;
};

// argv of an srun that starts one process on the node, beside whatever runs there. `words`: further options, and the program. Variables
// that describe another step have no effect on it; those of the user go along, as with any srun.
std::vector<std::string> InStep(const SlurmNode& node, const std::vector<std::string>& words);

// Each channel starts a step for itself. Slurm kills what a step has started when the step ends, so the step lasts as long as anything that
// was started through the channel: an agent's does until that has left. Once the channel is closed, such a step has no srun on this
// machine any more, whose end would be the step's; until then a signal to that srun ends it.
class SrunTransport : public Transport {
 public:
  // `host`: as the cluster file has it, for messages.
  SrunTransport(std::string host, SlurmNode node)
      : host_(std::move(host)), node_(std::move(node)) {}

  // Throws AllocationEnded, too.
  std::unique_ptr<ByteChannel> OpenShell(TimePoint& deadline) override;

 private:
  const std::string host_;
  const SlurmNode node_;
};

}  // namespace tfdist::cli
