#include "cli/job/connector.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "base/failures.h"
#include "base/thread_annotations.h"
#include "cli/channel/local_transport.h"
#include "cli/channel/tail.h"
#include "cli/job/asking_channel.h"
#include "cli/job/state_folder.h"
#include "cli/slurm/srun_transport.h"
#include "cli/ssh/openssh/openssh_masters.h"
#include "cli/ssh/ssh_transport.h"
#include "job/layout.h"
#include "wire/refusal.h"

namespace tfdist::cli {
namespace {

// Hosts of one configuration have the same to say.
class Notes {
 public:
  void SetSay(std::function<void(const std::string&, const std::string&)> say) {
    const MutexLock lock(mutex_);
    say_ = std::move(say);
  }
  void Add(const std::string& host, const std::string& note) {
    const MutexLock lock(mutex_);
    std::set<std::string>& hosts = hosts_[note];
    if (!say_ || hosts.size() > kHostsNamed || !hosts.insert(host).second) return;
    say_(hosts.size() > kHostsNamed ? "further hosts" : host, note);
  }

 private:
  static constexpr size_t kHostsNamed = 8;
  Mutex mutex_;
  std::function<void(const std::string&, const std::string&)> say_ GUARDED_BY(mutex_);
  std::map<std::string, std::set<std::string>> hosts_ GUARDED_BY(mutex_);
};

Notes& AllNotes() {
  static Notes notes;
  return notes;
}

ssh::Program ProgramOf(const std::string& transport) {
  return transport == "openssh" ? ssh::Program::kOpenssh : ssh::Program::kAuto;
}

// Empty where there is no home folder.
std::filesystem::path ConnectionsFile() {
  try {
    return StateFolder() / "connections";
  } catch (const Error&) {
    return {};
  }
}

ssh::Target TargetOf(const HostPlan& host, const SshOptions& options) {
  return {.name = host.ssh,
          .user = host.ssh_user.empty() ? options.user : host.ssh_user,
          .port = host.ssh_port ? host.ssh_port : options.port,
          .identity_file = options.identity_file,
          .config = options.config,
          .accept_new = options.host_keys == "accept-new",
          .strict = options.host_keys == "strict",
          .program = ProgramOf(host.transport.empty() ? options.transport : host.transport),
          .shared = host.slots > 1,
          .jumps = {},
          .limits = {},
          .connections = ConnectionsFile(),
          .on_step = {},
          .is_off = {},
          .others_answered = {},
          .on_note = [name = host.name](const std::string& note) { AllNotes().Add(name, note); }};
}

// The home folder of a cluster is mostly that of all its machines: what a job has written is read on this one once its nodes are gone.
class OutlivedNode : public Transport {
 public:
  // `agent`: the job's own, by its path there.
  OutlivedNode(const HostPlan& host, std::string agent)
      : node_(host.name, SlurmNode{host.slurm_job, host.ssh}),
        here_(host.name),
        agent_(std::move(agent)) {}

  std::unique_ptr<ByteChannel> OpenShell(TimePoint& deadline) override {
    try {
      return node_.OpenShell(deadline);
    } catch (const AllocationEnded&) {
      if (!LiesHere()) throw;
    }
    is_here_ = true;
    return here_.OpenShell(deadline);
  }

  [[nodiscard]] bool is_here() const { return is_here_; }

 private:
  [[nodiscard]] bool LiesHere() const {
    struct stat status {};
    return lstat(agent_.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
           status.st_uid == geteuid();
  }

  SrunTransport node_;
  LocalTransport here_;
  const std::string agent_;
  std::atomic<bool> is_here_ = false;
};

}  // namespace

std::unique_ptr<Transport> MakeTransport(const HostPlan& host, const SshOptions& ssh,
                                         Silence silence, std::function<void(const char*)> on_step,
                                         std::function<bool()> is_off,
                                         const AskedTogether* together) {
  if (host.local) return std::make_unique<LocalTransport>(host.name);
  if (host.ssh.empty()) {
    throw WithHost(
        Unreachable(Phase::kConnect, "neither the cluster file nor -H names this host of the job",
                    "add it to `hosts`, or to -H, as it was named when the job started"),
        host.name);
  }
  if (!host.slurm_job.empty()) {
    return std::make_unique<SrunTransport>(host.name, SlurmNode{host.slurm_job, host.ssh});
  }
  ssh::Target target = TargetOf(host, ssh);
  if (on_step) {
    target.on_step = [tell = std::move(on_step)](const ssh::Step& step) { tell(step.name); };
  }
  target.is_off = std::move(is_off);
  if (together != nullptr)
    target.others_answered = [together] { return together->one_has_answered(); };
  target.waits_for_firewalls = silence == Silence::kMayBeAFirewall;
  return std::make_unique<ssh::SshTransport>(host.name, std::move(target));
}

std::unique_ptr<Transport> TransportToJob(const JobRecord& record, int slot,
                                          std::function<bool()> is_off,
                                          const AskedTogether* together) {
  const HostPlan& host = record.hosts.at(static_cast<size_t>(slot));
  const std::string& base = record.bases.at(static_cast<size_t>(slot));
  if (!host.slurm_job.empty() && !base.empty())
    return std::make_unique<OutlivedNode>(host, layout::AgentPath(base, record.id, slot));
  return MakeTransport(host, record.ssh, Silence::kIsOff, {}, std::move(is_off), together);
}

std::string HostNameOf(const HostPlan& host, const SshOptions& ssh) {
  if (!host.slurm_job.empty()) return host.ssh;
  return ssh::HostNameOf(TargetOf(host, ssh));
}

void SetConnectionNotes(std::function<void(const std::string& host, const std::string& note)> say) {
  AllNotes().SetSay(std::move(say));
}

void AddConnectionNote(const std::string& host, const std::string& note) {
  AllNotes().Add(host, note);
}

void EndConnections() { ssh::EndMasters(); }

Tunnels::Tunnels(const HostPlan& host, const SshOptions& ssh) {
  if (!host.slurm_job.empty()) {
    throw WithHost(Error(Phase::kConnect, "no way leads to a port of a node by srun",
                         "call tfdist tensorboard with --fetch: it runs on this machine then"),
                   host.name);
  }
  transport_ = std::make_unique<ssh::SshTransport>(host.name, TargetOf(host, ssh));
}

Tunnels::~Tunnels() = default;

std::unique_ptr<ByteChannel> Tunnels::Open(int port, TimePoint& deadline) {
  return transport_->OpenTunnel(port, deadline);
}

namespace {

void TakeNoteOfSilence(const std::string& host, Attached& attached, TimePoint deadline, Wish wish) {
  if (wish != Wish::kLook) attached.hello = attached.link->Resume(deadline);
  const std::optional<std::string>& silent = attached.hello.silent;
  AddConnectionNote(host, silent ? fmt::format("its agent {}", *silent)
                                 : "its agent was stopped, and goes on (SIGCONT)");
}

}  // namespace

namespace {

// An agent of an earlier version cannot be reached so.
protocol::Hello HelloOfDisplaced(AgentLink& link, const std::string& job, const std::string& pids,
                                 TimePoint deadline) {
  try {
    return link.ReadHello(deadline);
  } catch (const LostConnection&) {
    throw JobRunsElsewhere(Phase::kDown, job, pids, "end the job there: kill " + OnOneLine(pids));
  }
}

}  // namespace

KnownBase KnownBaseOf(const JobRecord& record, int slot) {
  const auto at = static_cast<size_t>(slot);
  return {record.bases.at(at), at < record.base_ids.size() ? record.base_ids[at] : std::string()};
}

Attached Attach(const JobRecord& record, int slot, std::chrono::milliseconds limit,
                std::function<bool()> is_off, Wish wish) {
  TimePoint deadline = SystemClock().Now() + limit;
  return Attach(record, slot, deadline, std::move(is_off), wish);
}

Unreachable AnswersNonsense(const JobRecord& record, int slot, const ProtocolError& error) {
  return WithHost(Unreachable(error.phase(), error.cause(), error.remedy()),
                  record.hosts.at(static_cast<size_t>(slot)).name);
}

Attached AttachToLook(const JobRecord& record, int slot, TimePoint& deadline,
                      std::function<bool()> is_off, const AskedTogether* together) {
  try {
    return Attach(record, slot, deadline, std::move(is_off), Wish::kLook, together);
  } catch (const Error& error) {
    if (const auto* nonsense = dynamic_cast<const ProtocolError*>(&error))
      throw AnswersNonsense(record, slot, *nonsense);
    const bool says_more = dynamic_cast<const NothingThere*>(&error) != nullptr ||
                           dynamic_cast<const Unreachable*>(&error) != nullptr ||
                           dynamic_cast<const LostConnection*>(&error) != nullptr ||
                           dynamic_cast<const UsageError*>(&error) != nullptr ||
                           dynamic_cast<const protocol::Refusal*>(&error) != nullptr;
    if (says_more) throw;
    throw WithHost(Unreachable(error.phase(), error.cause(), error.remedy()), error.host());
  }
}

Attached Attach(const JobRecord& record, int slot, TimePoint& deadline,
                std::function<bool()> is_off, Wish wish, const AskedTogether* together) {
  const HostPlan& host = record.hosts.at(static_cast<size_t>(slot));
  try {
    Attached attached;
    attached.transport = TransportToJob(record, slot, is_off, together);
    auto shell = attached.transport->OpenShell(deadline);
    const auto has_answered = std::make_shared<bool>(false);
    if (is_off) shell = AskingChannel(std::move(shell), std::move(is_off), has_answered);
    BootedAgent booted =
        AttachAgent(std::move(shell), BaseOf(record, slot), record.id, slot, deadline,
                    KnownBaseOf(record, slot),
                    wish == Wish::kEnd ? Displaced::kIsReached : Displaced::kIsAnError);
    attached.is_displaced = !booted.displaced.empty();
    attached.link = std::make_unique<AgentLink>(std::move(booted.channel));
    attached.hello = attached.is_displaced
                         ? HelloOfDisplaced(*attached.link, record.id, booted.displaced, deadline)
                         : attached.link->ReadHello(deadline);
    *has_answered = true;
    if (attached.hello.silent) TakeNoteOfSilence(host.name, attached, deadline, wish);
    const auto* node = dynamic_cast<const OutlivedNode*>(attached.transport.get());
    if (node != nullptr && node->is_here())
      attached.hello.killed = fmt::format("Slurm's job {} has ended", host.slurm_job);
    return attached;
  } catch (Error& error) {
    if (error.host().empty()) error = error.WithHost(host.name);
    throw;
  }
}

}  // namespace tfdist::cli
