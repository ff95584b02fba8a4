// Asks every host of a plan what `check` wants to know of it, all at the same time. No job is made,
// and nothing is left on the hosts.
//
//   each host   connect, agent, facts, clock                  -> surveyed
//   each host   holds its ports, unless all are one machine  -> holding
//   each host   dials the ports of the others                 -> dialed
//
// One thread a host; a Gate after each row. A host that fails does not stop the others.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/deploy/host_addresses.h"
#include "cli/plan/plan.h"
#include "wire/host_check.h"

namespace tfdist::cli {

struct ClockReading {
  std::chrono::nanoseconds ahead{0};  // of this machine's clock
  std::chrono::nanoseconds error{0};  // half of the time that the answer took
};

// What is known of one host. What is absent was not answered, and `failure` says why.
struct HostReport {
  std::optional<Error> failure;  // with the host
  std::string base;              // tfdist's folder there
  std::string kind;              // of machine, as `uname -m` prints it
  std::optional<protocol::HostFacts> facts;
  std::optional<ClockReading> clock;
  std::vector<protocol::Target> targets;  // that it was to reach
  std::optional<std::vector<protocol::Unreached>> unreached;
};

// Element i: the host in slot i. Every wait has a deadline: about 15 s in all for a few hosts, a
// little more for each further one; start-up files of the account and an upload of the agent come on top.
// `kept`: for tasks that name {keep}.
std::vector<HostReport> AskHosts(const Plan& plan,
                                 const std::optional<protocol::KeptClaim>& kept = std::nullopt);

// What names mean on each host, as far as they have answered.
std::vector<std::optional<protocol::ResolvedNames>> NamesThere(
    const std::vector<HostReport>& reports);

}  // namespace tfdist::cli
