#include "agent/check/plan_ports.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "agent/check/port_claims.h"
#include "agent/check/reach.h"
#include "agent/control/control_listener.h"
#include "agent/control/tcp_address.h"
#include "agent/tasks/port_check.h"
#include "base/clock.h"
#include "base/error.h"

namespace tfdist::agent {
namespace {

using protocol::PortFact;
using protocol::Survey;
using protocol::TaskDescription;
using protocol::Trouble;

constexpr std::string_view kCoordinator = "coordinator";
// Whoever has a port on this very machine answers at once, if it is a check.
constexpr std::chrono::seconds kNeighbourLimit{1};
constexpr std::chrono::milliseconds kCheckPause{50};

// What `look` complains of. A port that will be free in a minute is no trouble.
template <typename Look>
std::optional<Trouble> TroubleOf(Look look) {
  try {
    look();
  } catch (const PortWaits&) {
    return std::nullopt;
  } catch (const Error& error) {
    return Trouble{error.cause(), error.remedy()};
  }
  return std::nullopt;
}

// Throws PortIsChecked where `look` fails at a port that a check has.
template <typename Look>
void OrIsChecked(int port, Look look) {
  try {
    look();
  } catch (const ControlPortInUse& error) {
    if (port == 0 || !IsPortPassing(port)) throw;
    throw PortIsChecked(error.cause());
  }
}

PortFact LookAtCoordinators(const Survey& survey) {
  PortFact fact{.port = survey.coordinator_port, .task = std::string(kCoordinator), .trouble = {}};
  fact.trouble = TroubleOf([&] {
    // The kernel gives a port that nobody else is after: this is about the address.
    (void)ListenForAgents(survey.coordinator, 0);
    if (fact.port == 0) return;
    OrIsChecked(fact.port, [&] { LookAtControlPort(survey.coordinator, fact.port); });
  });
  return fact;
}

void AddConflicts(const Survey& survey, std::vector<PortFact>& facts) {
  if (!survey.needs_ports) return;
  for (PortConflict& conflict : FindPortConflicts(survey.tasks, {})) {
    const auto fact = std::ranges::find(facts, conflict.port, &PortFact::port);
    if (!fact->trouble) fact->trouble = std::move(conflict.trouble);
  }
}

std::vector<UniqueFd> Take(const Survey& survey, const PortFact& fact) {
  if (fact.task != kCoordinator) return TakePort(fact.port, fact.task, survey.listen);
  std::vector<UniqueFd> taken;
  OrIsChecked(fact.port, [&] {
    taken.push_back(ListenForAgents(survey.coordinator, survey.coordinator_port));
  });
  return taken;
}

// Notes a trouble. True: a check has the port; perhaps this very one, for another slot here.
bool IsChecked(const Survey& survey, PortFact& fact, HeldPorts& held) {
  bool is_checked = false;
  fact.trouble = TroubleOf([&] {
    try {
      for (UniqueFd& fd : Take(survey, fact)) {
        fact.port = LocalPort(fd.get());
        held.Add(std::move(fd), fact.port);
      }
      fact.held = true;
    } catch (const PortIsChecked& checked) {
      is_checked = true;
      throw Error(Phase::kPorts, checked.cause(), "check again in a moment");
    }
  });
  return is_checked;
}

// Which of the ports that are taken this very check has, for another slot on this machine. This
// host's own ports are served already: two that ask each other do not wait for each other.
void FindNeighbours(const Handshake& handshake, const Survey& survey,
                    std::vector<PortFact>& facts) {
  const std::string address = survey.listen.empty() ? "127.0.0.1" : survey.listen;
  std::vector<protocol::Target> targets;
  std::vector<PortFact*> asked;
  for (PortFact& fact : facts) {
    if (!fact.trouble || fact.port == 0) continue;
    targets.push_back({.slot = -1, .address = address, .port = fact.port});
    asked.push_back(&fact);
  }
  const TimePoint deadline = SystemClock().Now() + kNeighbourLimit;
  for (const auto& failure : FindUnreached(handshake, targets, {}, deadline)) {
    asked[failure.target]->held_by = failure.answered_by;
  }
}

// Until they have let go. Two checks may wait for each other, each on another host: what is still
// not to be had is free, as far as a job is concerned, and is not dialed.
void WaitForOtherChecks(const Survey& survey, std::vector<PortFact*> checked, HeldPorts& late) {
  const TimePoint deadline = SystemClock().Now() + protocol::kOtherCheckLimit;
  while (!checked.empty() && SystemClock().Now() < deadline) {
    std::this_thread::sleep_for(kCheckPause);
    std::erase_if(checked, [&](PortFact* fact) { return !IsChecked(survey, *fact, late); });
  }
  for (PortFact* fact : checked) {
    if (IsPortOfCheck(fact->port)) {
      fact->trouble.reset();
    } else {
      (void)IsChecked(survey, *fact, late);  // it is free by now, or nobody's that can be seen
    }
  }
  late.Serve();
}

}  // namespace

std::vector<PortFact> LookAtPorts(const Survey& survey) {
  std::vector<PortFact> facts;
  std::set<int> seen;  // a spare host has all tasks, of which most share their ports
  for (const TaskDescription& task : survey.tasks) {
    for (const int port : task.ports) {
      if (!seen.insert(port).second) continue;
      facts.push_back({.port = port, .task = task.task, .trouble = {}});
      facts.back().trouble = TroubleOf([&] { LookAtPort(port, task.task, survey.listen); });
    }
  }
  AddConflicts(survey, facts);
  if (!survey.coordinator.empty()) facts.push_back(LookAtCoordinators(survey));
  return facts;
}

void HoldPorts(const Survey& survey, const Handshake& handshake, HeldPorts& held, HeldPorts& late,
               std::vector<PortFact>& facts) {
  std::vector<PortFact*> checked;
  for (PortFact& fact : facts) {
    if (!fact.trouble && IsChecked(survey, fact, held)) checked.push_back(&fact);
  }
  held.Serve();
  FindNeighbours(handshake, survey, facts);
  std::erase_if(checked, [](const PortFact* fact) { return fact->held_by >= 0; });
  WaitForOtherChecks(survey, std::move(checked), late);
}

}  // namespace tfdist::agent
