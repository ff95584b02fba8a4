#include "cli/ssh/openssh/session_channel.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/failures.h"
#include "cli/channel/child_channel.h"
#include "cli/ssh/openssh/openssh_masters.h"

namespace tfdist::ssh {
namespace {

// A start-up script is a fraction of this, and waits for an answer.
constexpr size_t kMostKeptBytes = 1024 * 1024;

class SessionChannel : public cli::ByteChannel {
 public:
  SessionChannel(const Target& target, std::string host, MasterPlace place)
      : target_(target), host_(std::move(host)), place_(std::move(place)), ssh_(Start()) {}

  ReadResult Read(std::string& out, TimePoint deadline) override {
    while (true) {
      const ReadResult result = ssh_->Read(out, deadline);
      if (result == ReadResult::kData) TakeAsBegun();
      if (result != ReadResult::kEndOfFile || !WasRefused()) return result;
      BeginAnew(deadline);
    }
  }
  void Write(std::string_view bytes, TimePoint deadline) override {
    if (!begun_) sent_.append(bytes);
    if (sent_.size() > kMostKeptBytes) TakeAsBegun();
    try {
      ssh_->Write(bytes, deadline);
    } catch (const LostConnection&) {
      std::string nothing;  // whatever else ssh says comes before its end
      if (ssh_->Read(nothing, deadline) != ReadResult::kEndOfFile || !WasRefused()) throw;
      BeginAnew(deadline);
    }
  }
  [[nodiscard]] int PollFd() const override { return ssh_->PollFd(); }
  [[nodiscard]] std::string Stderr() const override { return ssh_->Stderr(); }

 private:
  std::unique_ptr<cli::ByteChannel> Start() {
    return cli::OpenChildChannel(ThroughMaster(place_.socket, target_, {}, "/bin/sh"), place_.held);
  }
  void TakeAsBegun() {
    begun_ = true;
    sent_ = {};
  }
  // ssh says so, and ends.
  [[nodiscard]] bool WasRefused() const {
    return !begun_ && ssh_->Stderr().find("Session open refused by peer") != std::string::npos;
  }
  // The caller's deadline is that of a host that has been reached.
  void BeginAnew(TimePoint deadline) {
    TimePoint end = std::max(deadline, SystemClock().Now() + LoginLimit(target_.limits));
    try {
      place_ = TakeAnotherPlace(target_, place_, end);
    } catch (Error& error) {
      error = error.WithHost(host_);
      throw;
    }
    ssh_ = Start();
    if (!sent_.empty()) Write(std::exchange(sent_, {}), end);
  }

  const Target target_;
  const std::string host_;
  MasterPlace place_;
  std::unique_ptr<cli::ByteChannel> ssh_;
  std::string sent_;    // until something has come back
  bool begun_ = false;  // there
};

}  // namespace

std::unique_ptr<cli::ByteChannel> OpenSessionChannel(const Target& target, std::string host,
                                                     TimePoint& deadline) {
  MasterPlace place = TakeMasterPlace(target, deadline);
  if (target.on_step) target.on_step("shell");
  return std::make_unique<SessionChannel>(target, std::move(host), std::move(place));
}

}  // namespace tfdist::ssh
