#include "cli/ssh/ssh_transport.h"

#include <fmt/format.h>

#include <set>

#include "base/error.h"
#include "base/failures.h"
#include "base/thread_annotations.h"
#include "cli/channel/child_channel.h"
#include "cli/channel/tail.h"
#include "cli/ssh/config/library_failure.h"
#include "cli/ssh/config/logins.h"
#include "cli/ssh/config/phase_deadline.h"
#include "cli/ssh/libssh2/session.h"
#include "cli/ssh/openssh/openssh_masters.h"
#include "cli/ssh/openssh/session_channel.h"

namespace tfdist::ssh {
namespace {

// ssh -W. Whether somebody listens there shows when it ends.
class TunnelChannel : public cli::ByteChannel {
 public:
  TunnelChannel(std::unique_ptr<cli::ByteChannel> ssh, std::string host, int port)
      : ssh_(std::move(ssh)), host_(std::move(host)), port_(port) {}

  ReadResult Read(std::string& out, TimePoint deadline) override {
    const ReadResult result = ssh_->Read(out, deadline);
    if (result == ReadResult::kData) works_ = true;
    if (result == ReadResult::kEndOfFile && !works_ && !ssh_->Stderr().empty()) Refuse();
    return result;
  }
  void Write(std::string_view bytes, TimePoint deadline) override { ssh_->Write(bytes, deadline); }
  [[nodiscard]] int PollFd() const override { return ssh_->PollFd(); }
  [[nodiscard]] std::string Stderr() const override { return ssh_->Stderr(); }

 private:
  [[noreturn]] void Refuse() const {
    throw Error(Phase::kConnect,
                fmt::format("its sshd does not connect to port {} there: {}", port_,
                            cli::OnOneLine(ssh_->Stderr())),
                "if it is prohibited: AllowTcpForwarding yes in its sshd_config")
        .WithHost(host_);
  }

  std::unique_ptr<cli::ByteChannel> ssh_;
  std::string host_;
  int port_;
  bool works_ = false;
};

// Until the channel is open, or is not.
class Watched {
 public:
  explicit Watched(StepWatch& watch) : watch_(watch) {}
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;
  ~Watched() { watch_.End(); }

 private:
  StepWatch& watch_;
};

// What this process has found out: the hosts for which libssh2 has failed and ssh has not.
class OwnSshHosts {
 public:
  [[nodiscard]] bool Has(const std::string& host) {
    const MutexLock lock(mutex_);
    return hosts_.contains(host);
  }
  void Add(const std::string& host) {
    const MutexLock lock(mutex_);
    hosts_.insert(host);
  }

 private:
  Mutex mutex_;
  std::set<std::string> hosts_ GUARDED_BY(mutex_);
};

OwnSshHosts& ByOwnSsh() {
  static OwnSshHosts hosts;
  return hosts;
}

}  // namespace

SshTransport::SshTransport(std::string host, Target target)
    : host_(std::move(host)),
      say_(target.on_note),
      watch_(
          say_ ? say_ : [](const std::string& /*note*/) {}, kStepPatience),
      target_(std::move(target)) {
  target_.on_step = [this, tell = std::move(target_.on_step)](const Step& step) {
    watch_.Begin(step.waits_for, step.until);
    if (tell) tell(step);
  };
  if (!say_) return;
  // One line names the host.
  target_.on_note = [this](const std::string& note) {
    watch_.End();
    say_(note);
  };
  if (target_.shared || ByOwnSsh().Has(host_)) target_.program = Program::kOpenssh;
}

SshTransport::~SshTransport() = default;

Session& SshTransport::Connected(TimePoint& deadline) {
  if (session_ && session_->broken()) session_.reset();
  if (!session_) session_ = std::make_unique<Session>(Session::Open(target_, deadline));
  return *session_;
}

template <typename ByLibrary, typename ByProgram>
std::unique_ptr<cli::ByteChannel> SshTransport::Open(ByLibrary by_library, ByProgram by_program,
                                                     TimePoint& deadline) {
  const Watched watched(watch_);
  const TimePoint begin = SystemClock().Now();
  const TimePoint first_deadline = deadline;
  std::string why;
  try {
    if (target_.program == Program::kAuto) {
      try {
        return by_library();
      } catch (const LibraryFailure& failure) {
        why = failure.cause();
      }
      // What libssh2 spends in vain does not count.
      deadline = first_deadline + (SystemClock().Now() - begin);
      target_.program = Program::kOpenssh;
    }
    auto channel = by_program();
    if (why.empty()) return channel;
    ByOwnSsh().Add(host_);
    if (target_.on_note) target_.on_note("by your own ssh: " + why);
    return channel;
  } catch (Error& error) {
    error = error.WithHost(host_);
    throw;
  }
}

std::unique_ptr<cli::ByteChannel> SshTransport::OpenShell(TimePoint& deadline) {
  auto channel = Open([&] { return Connected(deadline).OpenShell(deadline); },
                      [&] { return OpenSessionChannel(target_, deadline); }, deadline);
  channel->SetOnNote(say_);
  return channel;
}

std::unique_ptr<cli::ByteChannel> SshTransport::OpenTunnel(int port, TimePoint& deadline) {
  const auto by_program = [&]() -> std::unique_ptr<cli::ByteChannel> {
    const MasterPlace place = TakeMasterPlace(target_, deadline);
    return std::make_unique<TunnelChannel>(
        cli::OpenChildChannel(
            ThroughMaster(place.socket, target_, {"-W", fmt::format("127.0.0.1:{}", port)}, ""),
            place.held),
        host_, port);
  };
  return Open([&] { return Connected(deadline).OpenTunnel(port, deadline); }, by_program, deadline);
}

std::string HostNameOf(const Target& target) {
  TimePoint deadline = SystemClock().Now();  // of the host, which is not asked
  return ConfigOf(target, deadline).host_name;
}

}  // namespace tfdist::ssh
