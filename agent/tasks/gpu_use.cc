#include "agent/tasks/gpu_use.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <string>

#include "base/error.h"
#include "base/subprocess.h"
#include "base/text.h"

namespace tfdist::agent {
namespace {

using protocol::GpuUse;

constexpr uint64_t kMebibyte = 1 << 20;  // nvidia-smi's unit

std::string_view Trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ') || text.ends_with('\r')) text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> Columns(std::string_view line) {
  std::vector<std::string_view> columns;
  while (!line.empty()) columns.push_back(Trimmed(TakeUpTo(',', line)));
  return columns;
}

template <typename T>
T NumberIn(std::string_view text) {
  T number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// Empty where it is not there, or fails.
std::string AnswerOfNvidiaSmi(const char* query, TimePoint deadline) {
  try {
    const ProgramResult result =
        RunProgram({.argv = {"nvidia-smi", query, "--format=csv,noheader,nounits"}}, deadline);
    return result.exit_code == 0 ? result.output : "";
  } catch (const Error&) {  // not installed
    return "";
  }
}

}  // namespace

GpuUses AskGpuUses(TimePoint deadline) {
  const std::string gpus = AnswerOfNvidiaSmi(
      "--query-gpu=index,uuid,utilization.gpu,memory.used,memory.total", deadline);
  if (gpus.empty()) return {};
  return ReadGpuUses(gpus,
                     AnswerOfNvidiaSmi("--query-compute-apps=pid,gpu_uuid,used_memory", deadline));
}

GpuUses ReadGpuUses(std::string_view gpus, std::string_view processes) {
  GpuUses uses;
  std::map<std::string_view, int> numbers;  // by uuid
  while (!gpus.empty() && uses.gpus.size() < protocol::kMostGpusUsed) {
    const auto columns = Columns(TakeUpTo('\n', gpus));
    if (columns.size() != 5) continue;
    GpuUse use;
    use.index = NumberIn<int>(columns[0]);
    if (use.index < 0) continue;
    use.percent = NumberIn<int>(columns[2]);
    use.used_bytes = NumberIn<uint64_t>(columns[3]) * kMebibyte;
    use.total_bytes = NumberIn<uint64_t>(columns[4]) * kMebibyte;
    numbers[columns[1]] = use.index;
    uses.gpus.push_back(use);
  }
  while (!processes.empty()) {
    const auto columns = Columns(TakeUpTo('\n', processes));
    if (columns.size() != 3 || !numbers.contains(columns[1])) continue;
    uses.processes.push_back({NumberIn<pid_t>(columns[0]), numbers.at(columns[1]),
                              NumberIn<uint64_t>(columns[2]) * kMebibyte});
  }
  return uses;
}

std::vector<GpuUse> UsedBy(const std::vector<pid_t>& pids, const GpuUses& uses) {
  std::vector<GpuUse> used;
  for (const GpuUse& gpu : uses.gpus) {
    GpuUse share = gpu;
    share.used_bytes = 0;
    bool is_used = false;
    for (const GpuOfProcess& process : uses.processes) {
      if (process.index != gpu.index || std::ranges::find(pids, process.pid) == pids.end()) {
        continue;
      }
      share.used_bytes += process.used_bytes;
      is_used = true;
    }
    if (is_used) used.push_back(share);
  }
  return used;
}

}  // namespace tfdist::agent
