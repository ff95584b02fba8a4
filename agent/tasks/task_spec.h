// From a task's description to what its holder is told: addresses and paths filled in, the
// environment complete.
#pragma once

#include <string>
#include <vector>

#include "agent/process/run_folder.h"
#include "agent/slot/slot_folder.h"
#include "agent/tasks/environment.h"
#include "wire/protocol.h"

namespace tfdist::agent {

// What is known only when an attempt starts.
struct AttemptContext {
  int attempt = 1;
  std::vector<std::string> addresses;     // of all slots, as the coordinator has it
  std::vector<protocol::SlotPlan> slots;  // of the job, as the CLI has them
  protocol::CommonTexts common;           // the same
  std::vector<std::string> gpus;          // of this host; looked for only for tasks with a share
  bool is_amd = false;                    // HasOnlyAmdsTools (gpu_share.h)
};

// Of a task with an image, `argv` starts its container, and `cwd` is the work folder: reads which engine was found (Prepare).
// Throws Error(kCommand) when the host has fewer GPUs than tasks that share them, or lacks a conda environment. Throws
// ProtocolError when an address is none that the CLI has named, or when the description names a
// slot that has no address: a coordinator cannot put text of its own into commands, environments
// and TF_CONFIGs of other hosts.
RunSpec MakeRunSpec(const protocol::TaskDescription& task, const SlotFolder& folder,
                    const SlotInfo& info, const Environment& host, const AttemptContext& context,
                    int run);

// The same before any attempt, for looking at the command: without addresses and common texts. Of a task with an image it is
// what runs in the container, `env` being what the job sets.
RunSpec MakePreflightSpec(const protocol::TaskDescription& task, const SlotFolder& folder,
                          const SlotInfo& info, const Environment& host);
// The same, but that words with an address or a common text hold kUnknown (base/inner_command.h).
RunSpec MakeSpecOfKnownWords(const protocol::TaskDescription& task, const SlotFolder& folder,
                             const SlotInfo& info, const Environment& host);

}  // namespace tfdist::agent
