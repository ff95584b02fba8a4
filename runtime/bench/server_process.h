// A parameter server in a process of its own, which is killed with its owner.
#pragma once

#include <sys/types.h>

#include "runtime/server.h"

namespace tfdist::runtime::bench {

class ServerProcess {
 public:
  // Returns at once: a client waits for the server. Throws std::runtime_error. Call it while the
  // process has one thread.
  explicit ServerProcess(const ServerOptions& options);
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;
  ~ServerProcess();

 private:
  pid_t pid_;
};

}  // namespace tfdist::runtime::bench
