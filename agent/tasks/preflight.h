// Makes a host ready for its tasks, and finds out whether they could run.
#pragma once

#include "agent/files/file_store.h"
#include "agent/slot/slot_folder.h"
#include "wire/protocol.h"

namespace tfdist::agent {

// Whether the names in it may be used as file names, each once. Throws Error(kFiles).
// Threads of tasks and their holders, as many as may run at the same time: those of the fullest slot.
int MostThreadsOf(const std::vector<protocol::TaskDescription>& tasks);

void CheckDescription(const protocol::HostDescription& description);

// Puts the files at their places, unpacks the workdir, and checks ports, GPUs and commands. May be done
// again. Throws Error(kFiles), Error(kPorts) or Error(kCommand). For the file thread.
void Prepare(const protocol::HostDescription& description, const FileStore& store,
             const SlotFolder& folder, const SlotInfo& info);

}  // namespace tfdist::agent
