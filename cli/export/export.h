// A plan as the file of another engine, for those who outgrow their own hosts. Pure: no file is written, no program asked.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/export/pod.h"
#include "cli/plan/plan.h"

namespace tfdist::cli {

enum class Engine { kKubernetes, kTfJob, kCompose };

// Lower-case letters, digits and '-', as names of hosts and of Kubernetes' objects are (RFC 1123). Throws UsageError where nothing of
// `text` would be left.
std::string DnsName(std::string_view text);

// The name by which the other tasks reach a task there: what PlanChanges::own_host returns.
std::string HostThere(Engine engine, const std::string& job, const TaskId& task);

struct Exported {
  std::string text;                // the file
  std::vector<std::string> notes;  // what it does not carry over; they stand in the text as well
};

// `apart`: the same plan with HostThere() for own_host. Throws UsageError where the engine cannot run it.
Exported ExportTo(Engine engine, const Plan& plan, const Plan& apart);

}  // namespace tfdist::cli
