// JSON of a command for scripts, on stdout. docs/json.md and docs/json.schema.json describe it.
#pragma once

#include <nlohmann/json.hpp>

namespace tfdist::cli {

// Of ASCII alone; text that is not UTF-8 contains U+FFFD.
void PrintJson(const nlohmann::json& value);

}  // namespace tfdist::cli
