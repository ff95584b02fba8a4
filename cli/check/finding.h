// One thing that is wrong on the hosts of a plan.
#pragma once

#include <string>
#include <vector>

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

  bool operator==(const Finding&) const = default;
};

// "h1, h2, h3 and 5 more".
std::string ListOf(const std::vector<std::string>& names);

}  // namespace tfdist::cli
