#include "cli/cluster_file/slurm_hosts.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <utility>

#include "base/text.h"
#include "cli/cluster_file/host_range.h"
#include "cli/cluster_file/host_words.h"

namespace tfdist::cli {
namespace {

constexpr const char* kNoAllocation =
    "call tfdist in a shell of `salloc --nodes=2`, or in a script of sbatch; a job that runs is "
    "found by its name: tfdist status NAME";

std::string Variable(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  return value == nullptr ? "" : value;
}

std::optional<size_t> TakeNumber(std::string_view& text) {
  size_t number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 1) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(rest - text.data()));
  return number;
}

// "2(x3),1": 2, 2, 2, 1. nullopt: Slurm writes no such thing.
std::optional<std::vector<int>> ParseCounts(std::string_view text) {
  std::vector<int> counts;
  while (!text.empty()) {
    std::string_view item = TakeUpTo(',', text);
    const auto count = TakeNumber(item);
    std::optional<size_t> times = 1;
    if (item.starts_with("(x") && item.ends_with(')')) {
      item = item.substr(2, item.size() - 3);
      times = TakeNumber(item);
    }
    if (!count || *count > kMostSlots || !times || !item.empty()) return std::nullopt;
    if (*times > kMostHosts - counts.size()) return std::nullopt;
    counts.insert(counts.end(), *times, static_cast<int>(*count));
  }
  return counts;
}

std::optional<std::vector<HostEntry>> ParseNodes(const std::string& list, const Where& where,
                                                 Problems& problems) {
  std::vector<HostEntry> hosts;
  for (const std::string& item : SplitHostList(list)) {
    const auto parsed = ParseHosts(item, HostNumber::kPort);
    if (const auto* bad = std::get_if<BadAddress>(&parsed)) {
      problems.Add(where, "SLURM_JOB_NODELIST: " + bad->why);
      return std::nullopt;
    }
    for (const HostWords& words : std::get<std::vector<HostWords>>(parsed)) {
      HostEntry host;
      host.where = where;
      host.address = words.host;
      host.ssh = words.host;
      hosts.push_back(std::move(host));
    }
    if (hosts.size() > kMostHosts) {
      problems.Add(where, fmt::format("SLURM_JOB_NODELIST: more than {} nodes", kMostHosts));
      return std::nullopt;
    }
  }
  return hosts;
}

// The variable has a value also where nobody asked for tasks: then it may be the number of CPUs.
bool WasAskedForTasks() {
  return !Variable("SLURM_NTASKS").empty() || !Variable("SLURM_NTASKS_PER_NODE").empty();
}

bool IsNumber(std::string_view text) {
  return !text.empty() && text.size() <= 20 &&
         std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::string SlurmJob() {
  std::string job = Variable("SLURM_JOB_ID");
  return IsNumber(job) ? job : "";
}

std::optional<std::vector<HostEntry>> ReadSlurmHosts(const Where& where, Problems& problems) {
  const std::string job = SlurmJob();
  const std::string nodes = Variable("SLURM_JOB_NODELIST");
  if (job.empty() || nodes.empty()) {
    problems.Add(where,
                 fmt::format("this is no allocation of Slurm: {} is not set",
                             job.empty() ? "SLURM_JOB_ID" : "SLURM_JOB_NODELIST"),
                 kNoAllocation);
    return std::nullopt;
  }
  auto hosts = ParseNodes(nodes, where, problems);
  if (!hosts) return std::nullopt;
  const std::string tasks = Variable("SLURM_TASKS_PER_NODE");
  const auto counts = ParseCounts(tasks);
  const bool counted = WasAskedForTasks();
  size_t slots = 0;
  for (size_t at = 0; at < hosts->size(); ++at) {
    if (counted && (!counts || counts->size() != hosts->size())) {
      problems.Add(where, fmt::format("SLURM_TASKS_PER_NODE is {}, for {} nodes", Quoted(tasks),
                                      hosts->size()));
      return std::nullopt;
    }
    HostEntry& host = (*hosts)[at];
    host.slurm_job = job;
    host.slots = counted ? (*counts)[at] : 1;
    slots += static_cast<size_t>(host.slots);
  }
  if (slots > kMostHosts) {
    problems.Add(where, fmt::format("the allocation has more than {} tasks", kMostHosts));
    return std::nullopt;
  }
  return hosts;
}

}  // namespace tfdist::cli
