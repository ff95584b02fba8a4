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
// Of the user's own connection, which may be one of yesterday, of another network.
constexpr std::chrono::seconds kOwnAnswers{10};

enum class Opening { kOpened, kRefused, kSilent };

// An ssh that uses a connection, with -v: so it tells what the host answers to its wish for a session.
class SessionChannel : public cli::ByteChannel {
 public:
  SessionChannel(const Target& target, const MasterPlace& place)
      : argv_(ThroughMaster(place.socket, target, {"-v"}, "/bin/sh")),
        held_(place.held),
        ssh_(cli::OpenChildChannel(argv_, held_)),
        master_(place.socket) {}

  // Waits for that answer. kSilent: it has not come by `deadline`. An ssh that has told of nothing at `mute_until` is taken at its word, as
  // one that somebody has put around ssh, and that keeps these words.
  Opening WaitForOpening(TimePoint mute_until, TimePoint deadline) {
    while (true) {
      const ReadResult result = ssh_->Read(first_, TimePoint::min());
      const std::string said = ssh_->Stderr();
      if (WasRefused(said)) return Opening::kRefused;
      if (result != ReadResult::kTimeout || WasOpened(said)) return Opening::kOpened;
      const bool tells = TellsSteps(said);
      const TimePoint end = tells ? deadline : std::min(mute_until, deadline);
      const TimePoint now = SystemClock().Now();
      if (now >= end) return tells ? Opening::kSilent : Opening::kOpened;
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
MasterPlace PlaceInsteadOf(const MasterPlace& other, Opening opening, const Target& target,
                           TimePoint& deadline) {
  const TimePoint begin = SystemClock().Now();
  TimePoint end = std::max(deadline, begin + LoginLimit(target.limits));
  MasterPlace place = opening == Opening::kSilent ? TakePlaceBesideSilent(target, other, end)
                                                  : TakeAnotherPlace(target, other, end);
  deadline += SystemClock().Now() - begin;
  return place;
}

}  // namespace

std::unique_ptr<cli::ByteChannel> OpenSessionChannel(const Target& target, TimePoint& deadline) {
  MasterPlace place = TakeMasterPlace(target, deadline);
  while (true) {
    const TimePoint end = Within(target.limits.exec, deadline);
    target.Begin({"shell", kWaitsForShell, end});
    const TimePoint begin = SystemClock().Now();
    auto channel = std::make_unique<SessionChannel>(target, place);
    const Opening opening = channel->WaitForOpening(
        begin + kMute, place.is_users ? std::min(end, begin + kOwnAnswers) : end);
    // An ssh of other words may have opened it all the same.
    if (opening == Opening::kOpened || (opening == Opening::kSilent && !place.is_users))
      return channel;
    place = PlaceInsteadOf(place, opening, target, deadline);
  }
}

}  // namespace tfdist::ssh
