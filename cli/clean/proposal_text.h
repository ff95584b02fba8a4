// How a proposal of `clean` is shown: as a table, or as JSON.
#pragma once

#include <nlohmann/json.hpp>

#include "cli/clean/proposal.h"

namespace tfdist::cli {

// Each thing with its size and age, and why it stays.
void PrintProposal(const Proposal& proposal);

// The same as docs/json.md says.
nlohmann::json ItemsJson(const Proposal& proposal);

}  // namespace tfdist::cli
