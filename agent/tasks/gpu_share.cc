#include "agent/tasks/gpu_share.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <numeric>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/subprocess.h"

namespace tfdist::agent {
namespace {

// Without a running persistence daemon it initializes each GPU first.
constexpr std::chrono::seconds kNvidiaSmiLimit{30};
// A folder for each GPU; in a container, for each that was given to it.
constexpr const char* kDriverFolder = "/proc/driver/nvidia/gpus";

std::optional<int> AskNvidiaSmi() {
  try {
    const ProgramResult result =
        RunProgram({.argv = {"nvidia-smi", "-L"}}, SystemClock().Now() + kNvidiaSmiLimit);
    if (result.exit_code != 0) return std::nullopt;
    return CountListedGpus(result.output);
  } catch (const Error&) {  // not installed
    return std::nullopt;
  }
}

int CountInDriverFolder() {
  std::error_code error;
  const std::filesystem::directory_iterator folder(kDriverFolder, error);
  if (error) return 0;  // no driver
  return static_cast<int>(std::distance(begin(folder), end(folder)));
}

}  // namespace

int CountGpus() {
  const std::optional<int> listed = AskNvidiaSmi();
  return listed ? *listed : CountInDriverFolder();
}

int GpuCount::In(int attempt) {
  if (attempt != attempt_) count_ = CountGpus();
  attempt_ = attempt;
  return count_;
}

int CountListedGpus(std::string_view listing) {
  int count = 0;
  while (!listing.empty()) {
    if (listing.starts_with("GPU ")) ++count;
    listing.remove_prefix(std::min(listing.find('\n'), listing.size() - 1) + 1);
  }
  return count;
}

std::string VisibleGpus(const protocol::GpuShare& share, int count, const std::string& task) {
  if (count == 0) return {};
  if (count < share.parts) {
    throw Error(Phase::kCommand,
                fmt::format("{} tasks that use GPUs are to share those of this host, and it has {} "
                            "({} is one of them)",
                            share.parts, count, task),
                "run fewer of them there, or write gpus = 0 for those that need none; to share a "
                "GPU on purpose, let the host list it twice: gpus = [0, 0]");
  }
  std::vector<int> part(static_cast<size_t>(count / share.parts));
  std::iota(part.begin(), part.end(), share.part * (count / share.parts));
  return fmt::format("{}", fmt::join(part, ","));
}

}  // namespace tfdist::agent
