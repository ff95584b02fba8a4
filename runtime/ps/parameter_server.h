// A parameter server of the job: listens at its own address of the cluster spec and serves until
// told to end.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/ps/service.h"
#include "runtime/say.h"
#include "runtime/tf_config.h"
#include "runtime/transport/server_socket.h"

namespace tfdist::runtime {

class ParameterServer {
 public:
  // `config.task` is the server's own. `secret` absent: no security, by explicit choice of the
  // user. Listens at once; throws Error(kPorts) when it cannot.
  ParameterServer(const TfConfig& config, const std::optional<JobSecret>& secret, uint32_t attempt,
                  const Say& say);

  // Serves until `stop_fd` is readable, then says what it has served.
  void Run(int stop_fd);

 private:
  Say say_;
  ServerSocket socket_;
  Service service_;
};

}  // namespace tfdist::runtime
