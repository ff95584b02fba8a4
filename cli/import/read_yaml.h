// YAML as JSON values.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tfdist::cli {

// The documents of a YAML file; plain scalars are numbers, truth values and nothing where YAML 1.2's core schema has them so.
// Throws UsageError with the line: no YAML, or more than 100,000 values, as aliases may make them.
std::vector<nlohmann::ordered_json> ReadYaml(const std::string& text);

}  // namespace tfdist::cli
