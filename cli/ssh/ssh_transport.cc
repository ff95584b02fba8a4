#include "cli/ssh/ssh_transport.h"

#include <fmt/format.h>

#include <optional>
#include <set>

#include "base/error.h"
#include "base/failures.h"
#include "base/thread_annotations.h"
#include "cli/channel/child_channel.h"
#include "cli/channel/tail.h"
#include "cli/ssh/config/logins.h"
#include "cli/ssh/libssh2/channel.h"
#include "cli/ssh/libssh2/library_failure.h"
#include "cli/ssh/libssh2/session.h"
#include "cli/ssh/openssh/openssh_masters.h"
#include "cli/ssh/openssh/session_channel.h"

namespace tfdist::ssh {
namespace {

class LibraryTransport : public SshTransport {
 public:
  LibraryTransport(std::string host, Target target)
      : SshTransport(std::move(host), target.on_note), target_(std::move(target)) {}

 private:
  std::unique_ptr<cli::ByteChannel> Shell(TimePoint& deadline) override {
    try {
      return Connected(deadline).OpenShell(deadline);
    } catch (const SessionRefused&) {
      if (!session_->HasHadChannels()) throw;
    }
    session_.reset();  // its channels keep their connection
    return Connected(deadline).OpenShell(deadline);
  }
  std::unique_ptr<cli::ByteChannel> Tunnel(int port, TimePoint& deadline) override {
    Session& session = Connected(deadline);
    return session.OpenTunnel(port, deadline);
  }

  // Moves `deadline` as Session::Open.
  Session& Connected(TimePoint& deadline) {
    if (session_ && session_->broken()) session_.reset();
    if (!session_) session_ = Session::Open(target_, deadline);
    return *session_;
  }

  Target target_;
  std::optional<Session> session_;
};

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

class ProgramTransport : public SshTransport {
 public:
  ProgramTransport(std::string host, Target target)
      : SshTransport(std::move(host), target.on_note), target_(std::move(target)) {}

 private:
  std::unique_ptr<cli::ByteChannel> Shell(TimePoint& deadline) override {
    return OpenSessionChannel(target_, deadline);
  }
  std::unique_ptr<cli::ByteChannel> Tunnel(int port, TimePoint& deadline) override {
    const MasterPlace place = TakeMasterPlace(target_, deadline);
    return std::make_unique<TunnelChannel>(
        cli::OpenChildChannel(
            ThroughMaster(place.socket, target_, {"-W", fmt::format("127.0.0.1:{}", port)}, ""),
            place.held),
        host(), port);
  }

  Target target_;
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

// By libssh2, or by the user's ssh where libssh2 cannot.
class AutoTransport : public SshTransport {
 public:
  AutoTransport(std::string host, Target target)
      : SshTransport(std::move(host), target.on_note), target_(std::move(target)) {
    if (target_.shared || ByOwnSsh().Has(SshTransport::host())) {
      TakeProgram();
    } else {
      way_ = std::make_unique<LibraryTransport>(SshTransport::host(), target_);
    }
  }

 private:
  std::unique_ptr<cli::ByteChannel> Shell(TimePoint& deadline) override {
    return Open(deadline, [&] { return way_->OpenShell(deadline); });
  }
  std::unique_ptr<cli::ByteChannel> Tunnel(int port, TimePoint& deadline) override {
    return Open(deadline, [&] { return way_->OpenTunnel(port, deadline); });
  }

  // `open` goes by `deadline`, which what libssh2 spends in vain does not count against.
  template <typename OpenChannel>
  std::unique_ptr<cli::ByteChannel> Open(TimePoint& deadline, OpenChannel open) {
    const TimePoint begin = SystemClock().Now();
    const TimePoint first_deadline = deadline;
    std::string why;
    try {
      return open();
    } catch (const LibraryFailure& failure) {
      why = failure.cause();
    } catch (const LibraryBreak& failure) {
      if (SystemClock().Now() >= deadline) throw;  // a host that is silent
      why = failure.cause();
    }
    TakeProgram();
    deadline = first_deadline + (SystemClock().Now() - begin);
    auto channel = open();
    ByOwnSsh().Add(host());
    if (target_.on_note) target_.on_note("by your own ssh: " + why);
    return channel;
  }

  void TakeProgram() {
    target_.program = Program::kOpenssh;
    way_ = std::make_unique<ProgramTransport>(host(), target_);
  }

  static OwnSshHosts& ByOwnSsh() {
    static OwnSshHosts hosts;
    return hosts;
  }

  Target target_;
  std::unique_ptr<SshTransport> way_;
};

}  // namespace

template <typename Open>
std::unique_ptr<cli::ByteChannel> SshTransport::WithHost(Open open) {
  try {
    return open();
  } catch (Error& error) {
    error = error.WithHost(host_);
    throw;
  }
}

std::unique_ptr<cli::ByteChannel> SshTransport::OpenShell(TimePoint& deadline) {
  auto channel = WithHost([&] { return Shell(deadline); });
  channel->SetOnNote(on_note_);
  return channel;
}

std::unique_ptr<cli::ByteChannel> SshTransport::OpenTunnel(int port, TimePoint& deadline) {
  return WithHost([&] { return Tunnel(port, deadline); });
}

std::unique_ptr<SshTransport> MakeSshTransport(std::string host, Target target) {
  switch (target.program) {
    case Program::kAuto:
      return std::make_unique<AutoTransport>(std::move(host), std::move(target));
    case Program::kLibrary:
      return std::make_unique<LibraryTransport>(std::move(host), std::move(target));
    case Program::kOpenssh:
      return std::make_unique<ProgramTransport>(std::move(host), std::move(target));
  }
  throw Bug("no such program for SSH");
}

std::string HostNameOf(const Target& target) {
  TimePoint deadline = SystemClock().Now();  // of the host, which is not asked
  return ConfigOf(target, deadline).host_name;
}

}  // namespace tfdist::ssh
