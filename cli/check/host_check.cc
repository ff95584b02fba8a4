#include "cli/check/host_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/hash.h"
#include "cli/check/targets.h"
#include "cli/cluster_file/host_address.h"
#include "cli/deploy/gate.h"
#include "cli/deploy/name_check.h"
#include "cli/deploy/set_up.h"
#include "cli/job/connector.h"
#include "cli/link/agent_start.h"
#include "cli/link/embedded_agent.h"
#include "cli/plan/data.h"
#include "cli/plan/describe.h"
#include "cli/plan/tensorflow_server.h"

namespace tfdist::cli {
namespace {

using namespace std::chrono_literals;
using protocol::Json;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
namespace type = protocol::type;

// A packet that is dropped is sent again after 1 s and 3 s: what did not answer then is cut off.
constexpr milliseconds kReachLimit = 3'500ms;
// The agent asks other programs for so long.
constexpr milliseconds kSurveyLimit = 4s;
constexpr milliseconds kConnectLimit = 6s;
constexpr milliseconds kBootLimit = 25s;  // as much as gives start-up files their own limit
constexpr milliseconds kHelloLimit = 5s;
constexpr milliseconds kAnswerLimit = 3s;  // beyond what the agent was given
// Of this machine's work for one host more, in each step.
constexpr milliseconds kPerHost = 100ms;
constexpr int kClockReadings = 3;

// 32 hexadecimal digits: the 32 bytes that a key of a check has.
constexpr size_t kKeyBytes = 16;

// Nothing lies between the tasks of one machine, so that nobody has to dial.
bool IsOneMachine(const Plan& plan) {
  const auto machine = [](const HostPlan& host) {
    return host.local ? std::pair<std::string, std::string>()
                      : std::pair(CanonicalAddress(host.address), host.ssh);
  };
  return std::ranges::all_of(plan.hosts, [&](const HostPlan& host) {
    return machine(host) == machine(plan.hosts.front());
  });
}

class Checkup {
 public:
  Checkup(const Plan& plan, const std::optional<protocol::KeptClaim>& kept)
      : plan_(plan),
        kept_(kept),
        key_(RandomHex(kKeyBytes)),
        set_up_key_(SetUpKey(plan)),
        reports_(plan.hosts.size()),
        uploaded_(plan.hosts.size(), 0),
        surveyed_(plan.hosts.size()),
        holding_(plan.hosts.size()),
        dialed_(plan.hosts.size()) {}

  std::vector<HostReport> Run() {
    std::vector<std::thread> threads;
    for (size_t slot = 0; slot < reports_.size(); ++slot) {
      try {
        threads.emplace_back([this, slot] { Ask(slot); });
      } catch (const std::system_error& error) {
        Fail(slot, Error(Phase::kInternal, std::string("cannot start a thread: ") + error.what(),
                         "raise ulimit -u"));
        surveyed_.Arrive(true);
        holding_.Arrive(true);
        dialed_.Arrive(true);
      }
    }
    for (std::thread& thread : threads) thread.join();
    return std::move(reports_);
  }

 private:
  void Ask(size_t slot) {
    Attached agent;
    Try(slot, [&] { Survey(slot, agent); });
    Pass(surveyed_, agent);
    std::call_once(choice_, [&] {
      addressed_ = WithAddresses(plan_, ChooseAddresses(plan_, NamesThere(reports_)));
    });
    if (!reports_[slot].failure && !one_machine_) Try(slot, [&] { Hold(slot, *agent.link); });
    Pass(holding_, agent);
    if (!reports_[slot].failure) Try(slot, [&] { Dial(slot, *agent.link); });
    // Until the others are through, this host answers them.
    Pass(dialed_, agent);
    Leave(agent);
  }

  // An agent that cannot be told notices that we are gone, and leaves by itself.
  void Leave(Attached& agent) const {
    try {
      if (agent.link) agent.link->Call(type::kAbort, Json::object(), In(kAnswerLimit));
    } catch (const std::exception&) {
      return;
    }
  }

  template <typename Step>
  void Try(size_t slot, Step step) {
    try {
      step();
    } catch (const Error& error) {
      Fail(slot, error);
    } catch (const std::exception& error) {
      Fail(slot, Error(Phase::kInternal, error.what()));
    }
  }

  void Fail(size_t slot, const Error& error) {
    reports_[slot].failure = error.WithHost(plan_.hosts[slot].name);
  }

  static void Pass(Gate& gate, Attached& agent) {
    gate.Arrive(true);
    while (gate.Wait(500ms) == Gate::State::kWaiting) {
      if (agent.link == nullptr) continue;
      try {
        (void)agent.link->Receive(SystemClock().Now());  // sends pings
      } catch (const Error&) {
        continue;  // the next step finds the broken link, and says so
      }
    }
  }

  [[nodiscard]] TimePoint In(milliseconds limit) const {
    return SystemClock().Now() + limit + kPerHost * plan_.hosts.size();
  }

  void Survey(size_t slot, Attached& agent) {
    const HostPlan& host = plan_.hosts[slot];
    agent.transport = MakeTransport(host, plan_.ssh, Silence::kMayBeAFirewall);
    const milliseconds more = kPerHost * plan_.hosts.size();
    StartedAgent started = BringAgent(
        *agent.transport, GetEmbeddedAgents(), plan_.ssh.remote_dir,
        {.shell = kConnectLimit + more, .boot = kBootLimit + more, .hello = kHelloLimit + more},
        [](const char*) {});
    agent.link = std::move(started.link);
    uploaded_[slot] = started.uploaded ? 1 : 0;
    reports_[slot].base = started.hello.base;
    reports_[slot].kind = started.machine;
    reports_[slot].facts = agent.link->Ask<protocol::HostFacts>(
        type::kSurvey, SurveyOf(slot, started.uploaded), In(kSurveyLimit + kAnswerLimit));
    TakePorts(slot, reports_[slot].facts->ports);
    ReadClock(slot, *agent.link);
  }

  // The other hosts are to dial them.
  void TakePorts(size_t slot, std::vector<protocol::PortFact> ports) {
    std::erase_if(
        ports, [](const protocol::PortFact& fact) { return fact.port < 0 || fact.port > 65535; });
    reports_[slot].facts->ports = std::move(ports);
  }

  // As late and for as short as can be: whoever wants one of these ports meanwhile is refused.
  void Hold(size_t slot, AgentLink& link) {
    const auto limit = protocol::kOtherCheckLimit + kAnswerLimit;
    TakePorts(slot, link.Ask<protocol::Held>(type::kHold, Json::object(), In(limit)).ports);
  }

  // Of the Python of its newest task, where the file asks for nothing of another one.
  static void AskForTensorFlow(protocol::Survey& survey) {
    if (survey.packages.empty())
      std::rotate(survey.tasks.begin(), survey.tasks.end() - 1, survey.tasks.end());
    if (std::ranges::find(survey.packages, kTensorFlow) != survey.packages.end()) return;
    survey.packages.emplace_back(kTensorFlow);
  }

  [[nodiscard]] protocol::Survey SurveyOf(size_t slot, bool brought) const {
    const HostPlan& host = plan_.hosts[slot];
    protocol::Survey survey;
    survey.slot = static_cast<int>(slot);
    survey.name = plan_.name;
    survey.key.value = key_;
    // Many test hosts on one machine: each has its own loopback address, and may have any port.
    const bool simulated = !host.local && IsLoopback(host.address);
    if (simulated && IsNumericAddress(host.address)) survey.listen = host.address;
    survey.packages = plan_.python_packages;
    for (const TaskOnHost& task : plan_.tasks) {
      if (!host.spare && static_cast<size_t>(task.slot) != slot) continue;
      survey.tasks.push_back(DescribeTask(plan_, task, static_cast<int>(slot)));
      if (RunsTensorFlowServer(task)) AskForTensorFlow(survey);
    }
    if (std::ranges::any_of(survey.tasks, protocol::NamesKeptFolder<protocol::TaskDescription>))
      survey.kept = kept_;
    survey.data = DataOf(plan_, survey.tasks);
    std::erase_if(survey.data, [](const auto& data) { return data.path.parts.empty(); });
    if (slot == 0) survey.coordinator = host.host_name.empty() ? host.address : "::";
    survey.coordinator_port = plan_.control_port;
    survey.needs_ports = plan_.needs_ports;
    survey.names = AllNames(plan_.hosts);
    survey.set_up_key = set_up_key_;
    survey.brought = brought;
    survey.limit_ms = kSurveyLimit.count();
    return survey;
  }

  // The answer that took least is nearest to the truth.
  void ReadClock(size_t slot, AgentLink& link) {
    std::optional<ClockReading>& best = reports_[slot].clock;
    for (int i = 0; i < kClockReadings; ++i) {
      const int64_t asked_ns = WallClockNanoseconds();
      const TimePoint begin = SystemClock().Now();
      const Json answer = link.Call(type::kPing, Json::object(), In(kAnswerLimit));
      const nanoseconds error = (SystemClock().Now() - begin) / 2;
      const nanoseconds there(answer.value("time_ns", int64_t{0}));
      if (best && best->error <= error) continue;
      best = ClockReading{there - nanoseconds(asked_ns) - error, error};
    }
  }

  void Dial(size_t slot, AgentLink& link) {
    std::vector<const std::vector<protocol::PortFact>*> ports;
    for (const HostReport& report : reports_) {
      ports.push_back(report.facts ? &report.facts->ports : nullptr);
    }
    HostReport& report = reports_[slot];
    report.targets = TargetsOf(addressed_, ports, static_cast<int>(slot));
    const auto limit = kReachLimit + kPerHost * plan_.hosts.size() / 10;
    const protocol::Reach reach{report.targets, WasBrought(slot), milliseconds(limit).count()};
    auto reached = link.Ask<protocol::Reached>(type::kReach, reach, In(limit + kAnswerLimit));
    std::set<size_t> seen;
    std::erase_if(reached.failures, [&](const auto& failure) {
      return failure.target >= report.targets.size() || !seen.insert(failure.target).second;
    });
    report.unreached = std::move(reached.failures);
  }

  // One of the slots of this machine had its agent uploaded: all of them use that one.
  [[nodiscard]] bool WasBrought(size_t slot) const {
    const HostReport& own = reports_[slot];
    for (size_t other = 0; other < reports_.size(); ++other) {
      const HostReport& report = reports_[other];
      if (uploaded_[other] != 0 && report.facts && report.facts->machine == own.facts->machine &&
          report.base == own.base) {
        return true;
      }
    }
    return false;
  }

  const Plan& plan_;
  const std::optional<protocol::KeptClaim>& kept_;
  Plan addressed_;  // with the addresses by which the hosts have each other
  std::once_flag choice_;
  std::string key_;
  const std::string set_up_key_;
  // Each element is written by its host's thread, and read by others after a gate.
  std::vector<HostReport> reports_;
  std::vector<char> uploaded_;
  const bool one_machine_ = IsOneMachine(plan_);
  Gate surveyed_;
  Gate holding_;
  Gate dialed_;
};

}  // namespace

std::vector<HostReport> AskHosts(const Plan& plan, const std::optional<protocol::KeptClaim>& kept) {
  return Checkup(plan, kept).Run();
}

std::vector<std::optional<protocol::ResolvedNames>> NamesThere(
    const std::vector<HostReport>& reports) {
  std::vector<std::optional<protocol::ResolvedNames>> names;
  for (const HostReport& report : reports) {
    names.push_back(report.facts ? std::optional(report.facts->names) : std::nullopt);
  }
  return names;
}

}  // namespace tfdist::cli
