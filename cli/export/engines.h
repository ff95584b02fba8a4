// What export.cc calls for each engine: the objects of its file, and the lines in front that say how it is used.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/export/pod.h"

namespace tfdist::cli {

struct ToExport {
  std::string name;  // a DnsName
  const Plan& plan;
  const std::vector<std::vector<Pod>>& roles;
};

struct EngineFile {
  std::vector<nlohmann::ordered_json> documents;
  std::vector<std::string> usage;
};

EngineFile ForKubernetes(const ToExport& job, Notes& notes);
EngineFile ForTfJob(const ToExport& job, Notes& notes);
EngineFile ForCompose(const ToExport& job, Notes& notes);

// Kubernetes counts in whole ones.
inline int64_t InSeconds(int64_t ms) { return (ms + 999) / 1000; }

// What Kubernetes' containers and those of a TFJob have in common (container.cc): `index` is written for kIndexMark, and "$" so
// that Kubernetes leaves it as it is. A Secret JOB-env has the variables of the user's shell.
struct PodTemplate {
  nlohmann::ordered_json container;
  nlohmann::ordered_json volumes;
};
PodTemplate TemplateOf(const ToExport& job, const Pod& pod, const std::string& index, Notes& notes);
// The claims that those volumes name, each once.
std::vector<nlohmann::ordered_json> ClaimsOf(const ToExport& job);

}  // namespace tfdist::cli
