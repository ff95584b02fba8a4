#include "cli/link/agent_start.h"

#include <fmt/format.h>

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/failures.h"
#include "job/layout.h"

namespace tfdist::cli {
namespace {

TimePoint In(std::chrono::milliseconds span) { return SystemClock().Now() + span; }

// Runs the agent through a shell.
using Boot =
    std::function<BootedAgent(std::unique_ptr<ByteChannel>, Upload upload, TimePoint deadline)>;

class Bringer {
 public:
  Bringer(Transport& transport, const StartLimits& limits, Boot boot,
          const std::function<void(const char*)>& on_step)
      : transport_(transport), limits_(limits), boot_(std::move(boot)), on_step_(on_step) {}

  StartedAgent Run() {
    if (auto there = TryWhatIsThere()) return std::move(*there);
    StartedAgent started = Start(Upload::kAlways);
    if (!started.link) return started;  // a house that has gone meanwhile
    ReadHello(started);
    if (IsWhole(started)) return started;
    throw Error(Phase::kStart, "the agent there is damaged: its content does not match its name",
                fmt::format("remove {}/{}/{} on that host", started.hello.base, layout::kAgents,
                            agent_->sha256_hex));
  }

 private:
  // nullopt: the host has a copy that does not run, or not as it should. One that has just been sent may be gone again,
  // too: a check removes at its end what nobody runs yet.
  std::optional<StartedAgent> TryWhatIsThere() {
    StartedAgent started = Start(Upload::kIfMissing);
    if (!started.link) return started;
    try {
      ReadHello(started);
    } catch (const SaysNothing&) {
      throw;
    } catch (const LostConnection&) {
      return std::nullopt;
    } catch (const ProtocolError&) {
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
    BootedAgent booted = boot_(std::move(shell), upload, In(limits_.boot));
    StartedAgent started;
    started.folders = std::move(booted.folders);
    started.uploaded = booted.uploaded;
    if (!booted.channel) return started;
    agent_ = booted.agent;
    pid_ = booted.pid;
    started.machine = agent_->machine;
    started.base_id = booted.base_id;
    started.link = std::make_unique<AgentLink>(std::move(booted.channel));
    return started;
  }
  void ReadHello(StartedAgent& started) {
    on_step_("the agent's first word");
    try {
      started.hello = started.link->ReadHello(In(limits_.hello));
    } catch (const SaysNothing&) {
      const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(limits_.hello);
      throw SaysNothing(
          Phase::kStart,
          fmt::format("the agent was started as process {}, and has said nothing for {} s", pid_,
                      seconds.count()),
          fmt::format("`ps -o stat,args {0}` on that host: T is stopped (kill -CONT {0}), D waits "
                      "for a disk; [ssh] remote_dir names another folder for the agent",
                      pid_));
    }
  }
  [[nodiscard]] bool IsWhole(const StartedAgent& started) const {
    return started.hello.agent_sha256 == agent_->sha256_hex;
  }

  Transport& transport_;
  const StartLimits& limits_;
  Boot boot_;
  const EmbeddedAgent* agent_ = nullptr;  // the one that was started last
  std::string pid_;                       // and its process there
  const std::function<void(const char*)>& on_step_;
};

}  // namespace

StartedAgent BringAgent(Transport& transport, std::span<const EmbeddedAgent> agents,
                        const std::string& remote_dir, const StartLimits& limits,
                        const std::function<void(const char*)>& on_step) {
  const auto boot = [&](std::unique_ptr<ByteChannel> shell, Upload upload, TimePoint deadline) {
    return StartAgent(std::move(shell), agents, remote_dir, upload, deadline);
  };
  return Bringer(transport, limits, boot, on_step).Run();
}

StartedAgent BringHouse(Transport& transport, std::span<const EmbeddedAgent> agents,
                        const FoldersAsked& asked, const StartLimits& limits) {
  const auto boot = [&](std::unique_ptr<ByteChannel> shell, Upload upload, TimePoint deadline) {
    return StartHouse(std::move(shell), agents, asked, upload, deadline);
  };
  StartedAgent started = Bringer(transport, limits, boot, [](const char*) {}).Run();
  if (started.link) started.link->StopPings();
  return started;
}

}  // namespace tfdist::cli
