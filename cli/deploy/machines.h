// Which slots of a plan are on one machine, as the hosts themselves tell: two names may mean one. Pure.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/deploy/name_check.h"
#include "cli/plan/plan.h"
#include "wire/resolved_names.h"

namespace tfdist::cli {

struct SlotsOfMachine {
  std::vector<int> slots;
  std::vector<std::string> names;  // of the plan, which takes them for machines of their own
  std::set<int> shared_ports;      // on which tasks of two of the names are to listen
};

// Each slot is in one of them. `told[i]`: of slot i's host, as Hello has it; empty: not known, so that its name counts. Many test
// hosts on one machine are told apart by their own loopback addresses, which `answers` have where they go by name.
std::vector<SlotsOfMachine> GroupByMachine(
    const Plan& plan, const std::vector<std::string>& told,
    const std::vector<std::optional<protocol::ResolvedNames>>& answers);

// Of a machine that has two names, or more.
NameWarning SharedBy(const Plan& plan, const SlotsOfMachine& machine);

}  // namespace tfdist::cli
