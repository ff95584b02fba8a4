#include "cli/ssh/openssh/session_channel.h"

#include <poll.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/failures.h"
#include "cli/channel/child_channel.h"
#include "cli/ssh/config/path_words.h"
#include "cli/ssh/config/phase_deadline.h"
#include "cli/ssh/openssh/master_end.h"
#include "cli/ssh/openssh/openssh_failure.h"
#include "cli/ssh/openssh/openssh_masters.h"

namespace tfdist::ssh {
namespace {

// With -v the first words come before ssh reads its configuration.
constexpr std::chrono::seconds kMute{4};

// An ssh that uses a connection, with -v: so it tells what the host answers to its wish for a session.
class SessionChannel : public cli::ByteChannel {
 public:
  SessionChannel(const Target& target, const MasterPlace& place)
      : argv_(ThroughMaster(place.socket, target, {"-v"}, "/bin/sh")),
        held_(place.held),
        ssh_(cli::OpenChildChannel(argv_, held_)),
        master_(place.socket) {}

  // Waits for that answer. False: the host opens no session. An ssh that does not tell of it is taken at its word: at `deadline`, and at
  // `mute_until` where it has told of nothing, as one that somebody has put around ssh, and that keeps these words.
  bool IsOpened(TimePoint mute_until, TimePoint deadline) {
    while (true) {
      const ReadResult result = ssh_->Read(first_, TimePoint::min());
      const std::string said = ssh_->Stderr();
      if (WasRefused(said)) return false;
      if (result != ReadResult::kTimeout || WasOpened(said)) return true;
      const TimePoint end = TellsSteps(said) ? deadline : std::min(mute_until, deadline);
      const TimePoint now = SystemClock().Now();
      if (now >= end) return true;
      pollfd waited{ssh_->PollFd(), POLLIN, 0};
      poll(&waited, 1, PollTimeout(now, end));
    }
  }

  ReadResult Read(std::string& out, TimePoint deadline) override {
    if (!first_.empty()) {
      out += std::exchange(first_, {});
      return ReadResult::kData;
    }
    const ReadResult result = ssh_->Read(out, deadline);
    if (result == ReadResult::kEndOfFile && HasEnded(master_)) {
      throw LostConnection(Phase::kExec, "the connection of your own ssh broke",
                           std::string(kBrokenConnection));
    }
    return result;
  }
  void Write(std::string_view bytes, TimePoint deadline) override { ssh_->Write(bytes, deadline); }
  [[nodiscard]] int PollFd() const override { return ssh_->PollFd(); }
  [[nodiscard]] std::string Stderr() const override { return WithoutSteps(ssh_->Stderr()); }
  std::unique_ptr<cli::ByteChannel> OpenAnother(TimePoint /*deadline*/) override {
    return cli::OpenChildChannel(argv_, held_);
  }
  void CloseInput(TimePoint deadline) override { ssh_->CloseInput(deadline); }
  std::optional<int> ExitStatus(TimePoint deadline) override { return ssh_->ExitStatus(deadline); }

 private:
  const std::vector<std::string> argv_;
  const std::shared_ptr<const void> held_;
  std::unique_ptr<cli::ByteChannel> ssh_;
  const std::string master_;  // its control socket
  std::string first_;         // read while the session was opened
};

// After a login that a host costs which opens few sessions: `deadline` is that of one that has been reached.
MasterPlace PlaceInsteadOf(const MasterPlace& refused, const Target& target, TimePoint& deadline) {
  const TimePoint begin = SystemClock().Now();
  TimePoint end = std::max(deadline, begin + LoginLimit(target.limits));
  MasterPlace place = TakeAnotherPlace(target, refused, end);
  deadline += SystemClock().Now() - begin;
  return place;
}

}  // namespace

std::unique_ptr<cli::ByteChannel> OpenSessionChannel(const Target& target, TimePoint& deadline) {
  MasterPlace place = TakeMasterPlace(target, deadline);
  while (true) {
    target.Begin({"shell", kWaitsForShell, Within(target.limits.exec, deadline)});
    auto channel = std::make_unique<SessionChannel>(target, place);
    if (channel->IsOpened(SystemClock().Now() + kMute, Within(target.limits.exec, deadline)))
      return channel;
    place = PlaceInsteadOf(place, target, deadline);
  }
}

}  // namespace tfdist::ssh
