// What is wrong on the hosts of a plan, from what they have answered: pure, no host is asked here.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/check/host_check.h"
#include "cli/plan/plan.h"

namespace tfdist::cli {

enum class Severity {
  kError,    // the job cannot run so
  kWarning,  // it can, and something is not as one would expect
};

struct Finding {
  Severity severity = Severity::kError;
  std::string check;  // the kind: "host key", "ports", "reach", ...; docs/json.md lists them
  std::string host;   // empty: it is about several
  std::string what;
  std::string remedy;
};

// Errors first, each kind in the order of the hosts. One cause is told once: what follows from it
// is left out, as far as that can be seen.
std::vector<Finding> FindingsOf(const Plan& plan, const std::vector<HostReport>& reports);

// "h1, h2, h3 and 5 more".
std::string ListOf(const std::vector<std::string>& names);

}  // namespace tfdist::cli
