// A TFJob of Kubeflow as a cluster file.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tfdist::cli {

struct Imported {
  std::string text;                // of a cluster file
  std::vector<std::string> notes;  // what it does not carry over; they stand in the text as well
};

// `documents`: of a YAML file with one TFJob, of any version from v1alpha1 to v1. `hosts`: the list, as TOML has it.
// Throws UsageError where there is no such object, or where it is none that the operator would take.
Imported ImportTfJob(const std::vector<nlohmann::ordered_json>& documents,
                     const std::string& hosts);

}  // namespace tfdist::cli
