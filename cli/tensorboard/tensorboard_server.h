// A TensorBoard that runs on a host, and ends with this object.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "cli/channel/byte_channel.h"
#include "cli/link/host_command.h"
#include "cli/tensorboard/host_answer.h"

namespace tfdist::cli {

// How TensorBoard is called at the other end of `talk`, and its version; nullopt: it is not installed, or does not run.
struct TensorBoardProgram {
  std::vector<std::string> words;
  std::string version;
};
std::optional<TensorBoardProgram> FindTensorBoard(HostTalk& talk);

// It listens on the host's 127.0.0.1, on a port of its choice. When this process is killed or the
// connection breaks, the host ends it.
class TensorBoardServer {
 public:
  // Throws Error with the host.
  TensorBoardServer(const Site& site, const SshOptions& ssh, const TensorBoardProgram& program,
                    const std::string& folder);

  // The port, once it listens; nullopt: not by `deadline`. Throws Error(kExec), with what it said,
  // when it has ended.
  std::optional<int> AwaitPort(TimePoint deadline);
  [[noreturn]] void FailSilent() const;
  // Waits until `deadline` at most. Throws Error(kExec), with what it said, when it has ended.
  void Watch(TimePoint deadline);
  // SIGTERM, then SIGKILL. Returns once the host says that nothing of it is left; throws
  // LostConnection when it does not.
  void End();

 private:
  // Whether it has ended.
  bool Read(TimePoint deadline);
  [[noreturn]] void FailEnded() const;

  std::string host_;
  std::unique_ptr<Transport> transport_;
  std::optional<RunningCommand> running_;
  std::optional<HostCommandEnd> end_;
  std::string said_;  // the last of it
};

}  // namespace tfdist::cli
