// By which address the hosts of a plan have each other: in TF_CONFIG, in placeholders, between agents, in the checks of ports.
// Only the hosts know: each asks the resolver that its tasks will ask. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/deploy/name_check.h"
#include "cli/plan/plan.h"
#include "wire/host_check.h"
#include "wire/resolved_names.h"

namespace tfdist::cli {

struct HostAddress {
  std::string address;
  // Why no other host can reach it by that, where tasks or agents there are to be reached.
  std::optional<protocol::Trouble> trouble;
  std::optional<NameWarning> warning;
};

// Of each slot: its address as it was written, unless that is an alias of ssh's configuration whose HostName is better. A name
// is better that leads all hosts to that machine, then one that all can resolve, then one that some can. `answers[i]`: what
// slot i has said of NamesToAsk or AllNames; nullopt: nothing.
std::vector<HostAddress> ChooseAddresses(
    const Plan& plan, const std::vector<std::optional<protocol::ResolvedNames>>& answers);

// The plan with those addresses.
Plan WithAddresses(Plan plan, const std::vector<HostAddress>& chosen);

// What is to be said of the addresses that were chosen, but for `trouble`.
std::vector<NameWarning> WarningsOf(const Plan& plan, const std::vector<HostAddress>& chosen,
                                    std::vector<std::optional<protocol::ResolvedNames>> answers);

// Whether others are to reach a host by one, or other slots of the only machine.
bool HasAliases(const std::vector<HostPlan>& hosts);

// "gpu1 is 10.0.0.1 for the other hosts (HostName in ssh's configuration)"; empty: all are as they were written.
std::string AddressesText(const std::vector<HostPlan>& hosts,
                          const std::vector<HostAddress>& chosen);
// The same before any host was asked.
std::string AliasesText(const std::vector<HostPlan>& hosts);

}  // namespace tfdist::cli
