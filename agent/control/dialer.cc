#include "agent/control/dialer.h"

#include <fmt/format.h>

#include <utility>

#include "agent/control/tcp_address.h"

namespace tfdist::agent {
namespace {

constexpr std::chrono::seconds kDialLimit{10};
constexpr std::chrono::seconds kProbeLimit{9};

}  // namespace

Dialer::Dialer(EventLoop& loop, std::function<void(const CoordinatorAddress&)> connect)
    : loop_(loop), connect_(std::move(connect)), limit_(loop, [this] {
        Fail(fmt::format("connected, but not answered in {} s", kDialLimit.count()));
      }) {}

void Dialer::Dial(const CoordinatorAddress& coordinator, std::vector<std::string> addresses,
                  std::function<void(std::optional<Error>)> done) {
  if (done_) Fail("asked anew");
  (void)DecodeCurveKey(coordinator.key);
  for (const std::string& address : addresses) (void)ParseTcpAddress(address, coordinator.port);
  coordinator_ = coordinator;
  addresses_ = std::move(addresses);
  at_ = 0;
  tried_.clear();
  done_ = std::move(done);
  limit_.Start(kDialLimit);
  Probe();
}

CoordinatorAddress Dialer::answered() const {
  return {addresses_.at(at_), coordinator_.port, coordinator_.key};
}

// One after the other: mostly there is one, and a wrong one is refused at once.
void Dialer::Probe() {
  const std::chrono::milliseconds limit = kProbeLimit;
  try {
    probe_ = std::make_unique<TcpProbe>(loop_, addresses_[at_], coordinator_.port,
                                        limit / static_cast<int>(addresses_.size()),
                                        [this](const std::string& why) { OnProbe(why); });
  } catch (const Error& error) {
    OnProbe(error.cause());  // an address of a family that this host does not have
  }
}

void Dialer::OnProbe(const std::string& why) {
  if (why.empty()) {
    probe_.reset();
    return connect_(answered());
  }
  const bool is_name = addresses_[at_] != coordinator_.address;
  tried_ += (tried_.empty() ? "" : ", ") + (is_name ? addresses_[at_] + ": " : "") + why;
  if (at_ + 1 == addresses_.size()) return Fail(tried_);
  ++at_;
  Probe();
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
