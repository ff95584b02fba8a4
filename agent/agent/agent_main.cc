#include "agent/agent/agent_main.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>

#include "agent/agent/agent.h"
#include "agent/keeper/keeper_link.h"
#include "base/error.h"
#include "base/log.h"

namespace tfdist::agent {
namespace {

// This process holds keys: nobody attaches to it, and no core file shows them.
void Harden() {
  prctl(PR_SET_NAME, "tfdist-agent");
  prctl(PR_SET_DUMPABLE, 0);
  umask(077);
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
  // libzmq spins when descriptors run out (docs/design.md).
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  // Errors of write(2), and a limit after which the hard one is yet to come.
  for (const int number : {SIGPIPE, SIGXFSZ, SIGXCPU}) std::signal(number, SIG_IGN);
}

}  // namespace

int AgentMain(const std::vector<std::string>& arguments) {
  SetLogName("agent");
  Harden();
  KeeperLink keeper(arguments);
  Agent agent(keeper);
  agent.Run();
  Log("the job is over");
  return kAgentJobOver;
}

}  // namespace tfdist::agent
