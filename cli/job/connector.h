// From a host of the plan to a conversation with the job's agent there.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "base/failures.h"
#include "cli/channel/byte_channel.h"
#include "cli/job/asked_together.h"
#include "cli/job/job_record.h"
#include "cli/link/agent_link.h"
#include "cli/link/bootstrap.h"

namespace tfdist::ssh {
class SshTransport;
}

namespace tfdist::cli {

// A host from which nothing comes back.
enum class Silence { kIsOff, kMayBeAFirewall };  // ssh::Target's waits_for_firewalls

// Nothing is opened yet. Throws nothing. `on_step`, `is_off`: as ssh::Target's. `together`: borrowed; the host is one of these.
std::unique_ptr<Transport> MakeTransport(const HostPlan& host, const SshOptions& ssh,
                                         Silence silence = Silence::kIsOff,
                                         std::function<void(const char*)> on_step = {},
                                         std::function<bool()> is_off = {},
                                         const AskedTogether* together = nullptr);

// To what the job has there in `slot`. As MakeTransport; where Slurm has ended the host's allocation, to this machine if the job's
// folder can be seen here. Processes of the job may have run elsewhere then, and do no more.
std::unique_ptr<Transport> TransportToJob(const JobRecord& record, int slot,
                                          std::function<bool()> is_off = {},
                                          const AskedTogether* together = nullptr);

// What ssh's configuration calls the host. Throws Error when ssh refuses its configuration.
std::string HostNameOf(const HostPlan& host, const SshOptions& ssh);

// What users should know of a connection ("by your own ssh: BindAddress 10.0.0.7") goes there, on the thread that connects:
// each note for a few hosts, and once for all others. Set by main; {}: nowhere.
void SetConnectionNotes(std::function<void(const std::string& host, const std::string& note)> say);

// To them.
void AddConnectionNote(const std::string& host, const std::string& note);

// Ends the connections that ssh programs keep for this process: before _exit(2). Elsewhere main's return does.
void EndConnections();

// Connections to TCP ports of a host that is reached over SSH, as its own programs make them: to its
// 127.0.0.1. Connects on first use, and again when the connection has broken. Belongs to one thread;
// one of its channels is used at a time.
class Tunnels {
 public:
  // `host` is not a local one.
  Tunnels(const HostPlan& host, const SshOptions& ssh);
  ~Tunnels();

  // Throws Error with the host: Unreachable, LostConnection, or that nobody listens there.
  std::unique_ptr<ByteChannel> Open(int port, TimePoint& deadline);

 private:
  std::unique_ptr<ssh::SshTransport> transport_;
};

// Attaches to the job's agent in `slot`, or to its folder when no agent runs any more (see
// Hello::serving). Throws Error with the host; NothingThere (bootstrap.h) when it has no such job, OutOfSight.
struct Attached {
  std::unique_ptr<Transport> transport;  // must outlive the link
  protocol::Hello hello;
  std::unique_ptr<AgentLink> link;
  bool is_displaced = false;
};
// tfdist's folder on the host of that slot, as the record knows it.
KnownBase KnownBaseOf(const JobRecord& record, int slot);

// What is wanted of an agent that is there and does not answer, as one that was stopped. A note says so either way.
enum class Wish {
  kLook,  // nothing: its folder tells
  kAct,   // that it goes on (SIGCONT); its folder acts only where it does not
  kEnd  // the same; and a slot that runs is reached where no path leads to its folder: Attached::is_displaced
};
// `deadline` is moved as Transport::OpenShell does. `is_off`, `together`: as MakeTransport's.
Attached Attach(const JobRecord& record, int slot, TimePoint& deadline,
                std::function<bool()> is_off = {}, Wish wish = Wish::kLook,
                const AskedTogether* together = nullptr);
Attached Attach(const JobRecord& record, int slot, std::chrono::milliseconds limit,
                std::function<bool()> is_off = {}, Wish wish = Wish::kLook);
// The same for who only looks, and asks the other hosts where this one cannot be asked: a login that is refused, a changed
// host key, or a folder that is not used are Unreachable, too.
Attached AttachToLook(const JobRecord& record, int slot, TimePoint& deadline,
                      std::function<bool()> is_off = {}, const AskedTogether* together = nullptr);

// Of who only looks: a host that sends what no agent sends is Unreachable, as the others can be asked.
Unreachable AnswersNonsense(const JobRecord& record, int slot, const ProtocolError& error);

// An agent that leaves hangs up on a client that has just come. The second time there is its folder, or
// the agent that follows. `ask` may move `deadline`.
template <typename Ask>
auto AskAgainWhenCutOff(const TimePoint& deadline, Ask ask) {
  try {
    return ask();
  } catch (const LostConnection&) {
    if (SystemClock().Now() >= deadline) throw;
  }
  return ask();
}

}  // namespace tfdist::cli
