// A task's run, put into the container that its description asks for.
#pragma once

#include <filesystem>

#include "agent/container/container_run.h"
#include "agent/process/run_folder.h"
#include "agent/slot/slot_folder.h"
#include "agent/tasks/environment.h"
#include "wire/protocol.h"

namespace tfdist::agent {

// `spec` as it would run on the host itself, `env` being what the job sets. What the container sees of the host: the work
// folder, and of {keep}, the runtime and the job's secret what there is, each at its own path.
ContainerRun ContainerRunOf(const RunSpec& spec, const protocol::TaskDescription& task,
                            const SlotFolder& folder, const SlotInfo& info);

// `spec` starts the container instead, in the environment that the host gives the account; the task's own is written into
// the run's folder. Throws Error(kFiles) where no engine is known yet.
void PutIntoContainer(RunSpec& spec, const protocol::TaskDescription& task,
                      const SlotFolder& folder, const SlotInfo& info, const Environment& host);

// Whether that run's holder was killed: nobody else has ended its container then.
bool MayHaveLeftContainer(const RunState& state);
// Its next run waits for this. Logs what goes wrong: the next run and the census try again. An engine may take 10 s not to
// answer.
void EndContainerOfLostHolder(const std::filesystem::path& run_folder);

}  // namespace tfdist::agent
