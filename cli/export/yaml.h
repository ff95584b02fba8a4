// JSON values as YAML 1.2, for people and for programs that read it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace tfdist::cli {

// In block style, keys in their order; a list of numbers stands on one line. Texts that YAML might take for something else
// are in quotes. Throws UsageError where a text is not UTF-8: YAML cannot have it.
std::string ToYaml(const nlohmann::ordered_json& value);

}  // namespace tfdist::cli
