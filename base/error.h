// The one exception type: what failed, where, in which phase, why, and what to do about it.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace tfdist {

// The step of the work that failed, as a user would name it. `PhaseName` gives the words.
enum class Phase {
  kUsage,    // command line
  kConfig,   // cluster file
  kResolve,  // host name -> address
  kConnect,  // TCP and SSH handshake
  kHostKey,  // known_hosts
  kAuth,     // SSH authentication
  kExec,     // start of the remote shell
  kUpload,   // agent or files
  kStart,    // agent start-up on the host
  kFiles,    // files and folders of the job
  kPorts,    // a port of the plan is taken
  kSetUp,    // the set-up command of a job on a host
  kCommand,  // a task's command cannot be executed
  kGpus,     // a task's GPUs are not there
  kControl,  // agents and coordinator
  kCommit,   // handing over the plan
  kRun,      // a running job
  kLogs,     // reading output
  kDown,     // ending a job
  kInternal,
};

std::string_view PhaseName(Phase phase);
// The phase of that name; kInternal when it is none (a name from a newer peer).
Phase PhaseFromName(std::string_view name);

// Thrown by every layer; layers between add context with `WithHost`, and neither log nor swallow.
// what() is one line: "gpu07: host key: differs from known_hosts line 12" (host left out when
// empty). A remedy, when there is one, stands apart: the CLI prints it as "  try: ...".
class Error : public std::runtime_error {
 public:
  Error(Phase phase, std::string cause, std::string remedy = {});
  [[nodiscard]] Error WithHost(std::string host) const;

  [[nodiscard]] const std::string& host() const { return host_; }
  [[nodiscard]] Phase phase() const { return phase_; }
  [[nodiscard]] const std::string& cause() const { return cause_; }
  [[nodiscard]] const std::string& remedy() const { return remedy_; }

 private:
  Error(std::string host, Phase phase, std::string cause, std::string remedy);
  std::string host_;
  Phase phase_;
  std::string cause_;
  std::string remedy_;
};

// "cause: No such file or directory" for the given errno value.
std::string WithErrno(std::string_view what, int error_number);

}  // namespace tfdist
