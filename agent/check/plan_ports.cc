#include "agent/check/plan_ports.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
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

PortFact LookAtCoordinators(const Survey& survey) {
  PortFact fact{.port = survey.coordinator_port, .task = std::string(kCoordinator), .trouble = {}};
  fact.trouble = TroubleOf([&] {
    // The kernel gives a port that nobody else is after: this is about the address.
    (void)ListenForAgents(survey.coordinator, 0);
    if (survey.coordinator_port != 0)
      LookAtControlPort(survey.coordinator, survey.coordinator_port);
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

void Take(const Survey& survey, PortFact& fact, HeldPorts& held) {
  if (fact.task == kCoordinator) {
    UniqueFd fd = ListenForAgents(survey.coordinator, survey.coordinator_port);
    fact.port = LocalPort(fd.get());
    return held.Add(std::move(fd), fact.port);
  }
  for (UniqueFd& fd : TakePort(fact.port, fact.task, survey.listen)) {
    held.Add(std::move(fd), fact.port);
  }
}

// False: not now, without a trouble.
bool Hold(const Survey& survey, PortFact& fact, HeldPorts& held) {
  bool is_held = false;
  fact.trouble = TroubleOf([&] {
    try {
      Take(survey, fact, held);
      is_held = true;
    } catch (const PortIsChecked& checked) {
      // Perhaps this very check, for another slot here (FindNeighbours).
      throw Error(Phase::kPorts, checked.cause(), "check again in a moment");
    }
  });
  return is_held;
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

void HoldPorts(const Survey& survey, const Handshake& handshake, HeldPorts& held,
               std::vector<PortFact>& facts) {
  for (PortFact& fact : facts) {
    if (!fact.trouble) fact.held = Hold(survey, fact, held);
  }
  held.Serve();
  FindNeighbours(handshake, survey, facts);
}

}  // namespace tfdist::agent
