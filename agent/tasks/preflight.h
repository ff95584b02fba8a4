// Makes a host ready for its tasks, and finds out whether they could run.
#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "agent/files/file_store.h"
#include "agent/slot/slot_folder.h"
#include "wire/protocol.h"

namespace tfdist::agent {

// Whether the names in it may be used as file names, each once. Throws Error(kFiles).
// Threads of tasks and their holders, as many as may run at the same time: those of the fullest slot.
int MostThreadsOf(const std::vector<protocol::TaskDescription>& tasks);

void CheckDescription(const protocol::HostDescription& description);

struct Prepared {
  std::string why_ports_wait;                 // as WhyPortsWait says it
  std::vector<protocol::ImageOnHost> images;  // of the tasks
};

// Puts the files at their places, unpacks the workdir, makes {keep} where tasks name it, and checks ports, GPUs, commands and
// images. May be done again. Throws Error(kFiles), Error(kPorts) or Error(kCommand), and soon once `stop` is requested. For the
// file thread.
Prepared Prepare(const protocol::HostDescription& description, const FileStore& store,
                 const SlotFolder& folder, const SlotInfo& info, const std::stop_token& stop = {});

// Throws Error(kCommand) where a task's command, or the folder that it starts in, is not there.
void CheckCommands(const protocol::HostDescription& description, const SlotFolder& folder,
                   const SlotInfo& info);

// Why a port is not free yet and will be by itself (PortWaits); empty: all are free. Throws Error(kPorts).
std::string WhyPortsWait(const protocol::HostDescription& description, const SlotFolder& folder,
                         const SlotInfo& info);

}  // namespace tfdist::agent
