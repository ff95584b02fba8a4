#include "agent/control/dialer.h"

#include <fmt/format.h>

#include <utility>

namespace tfdist::agent {
namespace {

constexpr std::chrono::seconds kDialLimit{10};
constexpr std::chrono::seconds kProbeLimit{9};

}  // namespace

Dialer::Dialer(EventLoop& loop, std::function<void(const CoordinatorAddress&)> connect)
    : loop_(loop), connect_(std::move(connect)), limit_(loop, [this] {
        Fail(fmt::format("connected, but not answered in {} s", kDialLimit.count()));
      }) {}

void Dialer::Dial(const CoordinatorAddress& coordinator,
                  std::function<void(std::optional<Error>)> done) {
  if (done_) Fail("asked anew");
  (void)DecodeCurveKey(coordinator.key);
  probe_ = std::make_unique<TcpProbe>(loop_, coordinator.address, coordinator.port, kProbeLimit,
                                      [this](const std::string& why) { OnProbe(why); });
  coordinator_ = coordinator;
  done_ = std::move(done);
  limit_.Start(kDialLimit);
}

void Dialer::OnProbe(const std::string& why) {
  probe_.reset();
  if (!why.empty()) return Fail(why);
  connect_(coordinator_);
}

void Dialer::OnContact() { Finish(std::nullopt); }

void Dialer::Fail(const std::string& why) {
  Finish(Error(
      Phase::kControl,
      fmt::format("cannot reach the coordinator at {}:{} ({})",
                  protocol::AddressText(coordinator_.address, true), coordinator_.port, why),
      "does a firewall stand between the hosts? `[control] port` fixes the port to be opened"));
}

void Dialer::Finish(std::optional<Error> error) {
  limit_.Stop();
  probe_.reset();
  if (const auto done = std::exchange(done_, {})) done(std::move(error));
}

}  // namespace tfdist::agent
