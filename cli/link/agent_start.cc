#include "cli/link/agent_start.h"

#include <fmt/format.h>

#include <optional>

#include "base/clock.h"
#include "base/error.h"
#include "base/failures.h"
#include "cli/link/bootstrap.h"
#include "job/layout.h"

namespace tfdist::cli {
namespace {

TimePoint In(std::chrono::milliseconds span) { return SystemClock().Now() + span; }

class Bringer {
 public:
  Bringer(Transport& transport, std::span<const EmbeddedAgent> agents,
          const std::string& remote_dir, const StartLimits& limits,
          const std::function<void(const char*)>& on_step)
      : transport_(transport),
        agents_(agents),
        remote_dir_(remote_dir),
        limits_(limits),
        on_step_(on_step) {}

  StartedAgent Run() {
    if (auto there = TryWhatIsThere()) return std::move(*there);
    StartedAgent started = Start(Upload::kAlways);
    ReadHello(started);
    if (IsWhole(started)) return started;
    throw Error(Phase::kStart, "the agent there is damaged: its content does not match its name",
                fmt::format("remove {}/{}/{} on that host", started.hello.base, layout::kAgents,
                            agent_->sha256_hex));
  }

 private:
  // nullopt: the host has a copy that does not run, or not as it should.
  std::optional<StartedAgent> TryWhatIsThere() {
    StartedAgent started = Start(Upload::kIfMissing);
    try {
      ReadHello(started);
    } catch (const LostConnection&) {
      if (started.uploaded) throw;
      return std::nullopt;
    } catch (const ProtocolError&) {
      if (started.uploaded) throw;
      return std::nullopt;
    }
    if (IsWhole(started)) return started;
    return std::nullopt;
  }
  StartedAgent Start(Upload upload) {
    on_step_("connect");
    TimePoint deadline = In(limits_.shell);
    auto shell = transport_.OpenShell(deadline);
    on_step_("find or send the agent");
    BootedAgent booted =
        StartAgent(std::move(shell), agents_, remote_dir_, upload, In(limits_.boot));
    agent_ = booted.agent;
    return {std::make_unique<AgentLink>(std::move(booted.channel)),
            {},
            booted.uploaded,
            std::string(agent_->machine)};
  }
  void ReadHello(StartedAgent& started) {
    on_step_("hello");
    started.hello = started.link->ReadHello(In(limits_.hello));
  }
  [[nodiscard]] bool IsWhole(const StartedAgent& started) const {
    return started.hello.agent_sha256 == agent_->sha256_hex;
  }

  Transport& transport_;
  std::span<const EmbeddedAgent> agents_;
  const EmbeddedAgent* agent_ = nullptr;  // the one that was started last
  const std::string& remote_dir_;
  const StartLimits& limits_;
  const std::function<void(const char*)>& on_step_;
};

}  // namespace

StartedAgent BringAgent(Transport& transport, std::span<const EmbeddedAgent> agents,
                        const std::string& remote_dir, const StartLimits& limits,
                        const std::function<void(const char*)>& on_step) {
  return Bringer(transport, agents, remote_dir, limits, on_step).Run();
}

}  // namespace tfdist::cli
