// From a host to an agent there that is what this tfdist brings.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "cli/channel/byte_channel.h"
#include "cli/link/agent_link.h"
#include "cli/link/bootstrap.h"
#include "cli/link/embedded_agent.h"
#include "wire/protocol.h"

namespace tfdist::cli {

struct StartLimits {
  std::chrono::milliseconds shell{};  // the login too
  std::chrono::milliseconds boot{};   // rc files of the login shell included
  std::chrono::milliseconds hello{};
};

struct StartedAgent {
  std::unique_ptr<AgentLink> link;
  protocol::Hello hello;
  bool uploaded = false;  // false: the host had this agent already
  std::string machine;    // what it runs on, as `uname -m` prints it
  std::string base_id;    // of the folder that it is in (KnownBase)
  HostFolders folders;    // of BringHouse; without `bases` no agent runs, and there is no link
};

// Runs that of `agents` which is for the host's kind of machine in its role `start` on the host of `transport`. One that is there is taken as it is; if it cannot run, or its
// content is not what its name says, or it has been removed meanwhile, it is sent again, once. `on_step` is told "connect", "find or send the agent", "hello" as each begins. Throws as
// Transport::OpenShell, StartAgent and AgentLink::ReadHello; Error(kStart) when a new one is damaged as well.
StartedAgent BringAgent(Transport& transport, std::span<const EmbeddedAgent> agents,
                        const std::string& remote_dir, const StartLimits& limits,
                        const std::function<void(const char*)>& on_step);

// The same in the role `house`, as StartHouse. Its link expects no pings to be answered.
StartedAgent BringHouse(Transport& transport, std::span<const EmbeddedAgent> agents,
                        const FoldersAsked& asked, const StartLimits& limits);

}  // namespace tfdist::cli
