#include "agent/tasks/gpu_share.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "base/subprocess.h"
#include "base/text.h"

namespace tfdist::agent {
namespace {

constexpr size_t kMostGpus = 256;  // slices
constexpr size_t kMostTroubleBytes = 200;
// Without a running persistence daemon it initializes each GPU first.
constexpr std::chrono::seconds kNvidiaSmiLimit{30};
// A folder for each GPU; in a container, for each that was given to it.
constexpr const char* kDriverFolder = "/proc/driver/nvidia/gpus";
// Of nvidia-smi(1).
constexpr int kNoDevices = 6;
constexpr int kNoDriver = 9;
constexpr size_t kMostVendorBytes = 16;

std::string_view WithoutBlanks(std::string_view line) {
  while (!line.empty() && (line.front() == ' ' || line.front() == '\t')) line.remove_prefix(1);
  while (!line.empty() && (line.back() == ' ' || line.back() == '\r')) line.remove_suffix(1);
  return line;
}

// "GPU-6d2b" of "... (UUID: GPU-6d2b)".
std::string_view UuidIn(std::string_view line) {
  constexpr std::string_view kBefore = "(UUID: ";
  const size_t at = line.find(kBefore);
  if (at == line.npos) return {};
  line.remove_prefix(at + kBefore.size());
  return line.substr(0, line.find(')'));
}

// "GPU 0: NVIDIA H100 (UUID: GPU-6d2b)".
std::optional<HostGpu> GpuIn(std::string_view line) {
  constexpr std::string_view kBefore = "GPU ";
  const size_t colon = line.find(": ");
  if (!line.starts_with(kBefore) || colon == line.npos) return std::nullopt;
  const std::string_view number = line.substr(kBefore.size(), colon - kBefore.size());
  const bool is_number = !number.empty() && number.find_first_not_of("0123456789") == number.npos;
  if (!is_number) return std::nullopt;
  const std::string_view name = line.substr(colon + 2);
  return HostGpu{std::string(number),
                 std::string(WithoutBlanks(name.substr(0, name.find(" (UUID")))),
                 std::string(UuidIn(line))};
}

// "  MIG 1g.10gb     Device  0: (UUID: MIG-e3b2)".
std::optional<HostGpu> SliceIn(std::string_view line) {
  const std::string_view uuid = UuidIn(line);
  if (!line.starts_with("MIG ") || uuid.empty()) return std::nullopt;
  const std::string_view name = line.substr(0, line.find("Device"));
  return HostGpu{std::string(uuid), std::string(WithoutBlanks(name)), std::string(uuid)};
}

bool IsUuid(std::string_view gpu) { return gpu.starts_with("GPU-") || gpu.starts_with("MIG-"); }

std::vector<std::string> UuidsOf(const HostGpus& host) {
  std::vector<std::string> uuids;
  for (const HostGpu& gpu : host.gpus) uuids.push_back(gpu.uuid);
  return uuids;
}

// A divided GPU, which stands in the list as its slices, may be meant by a number; a GPU whose UUID is not known, by any.
bool Has(const HostGpus& host, std::string_view gpu) {
  if (!IsUuid(gpu)) {
    return std::ranges::find(host.divided, gpu) != host.divided.end() ||
           std::ranges::find(host.gpus, gpu, &HostGpu::id) != host.gpus.end();
  }
  return std::ranges::any_of(host.gpus, [&](const HostGpu& known) {
    return known.uuid.empty() || known.uuid.starts_with(gpu);
  });
}

class Listing {
 public:
  void Read(std::string_view line) {
    if (line.empty() || found_.gpus.size() >= kMostGpus) return;
    if (auto slice = SliceIn(line)) return AddSlice(*std::move(slice));
    if (auto gpu = GpuIn(line)) {
      found_.gpus.push_back(*std::move(gpu));
      whole_ = true;
    } else if (found_.trouble.empty()) {
      found_.trouble = line.substr(0, kMostTroubleBytes);
    }
  }

  HostGpus Take() { return std::move(found_); }

 private:
  // A program is given slices of a divided GPU, never the whole.
  void AddSlice(HostGpu slice) {
    if (whole_) {
      found_.divided.push_back(found_.gpus.back().id);
      found_.gpus.pop_back();
    }
    whole_ = false;
    found_.gpus.push_back(std::move(slice));
  }

  HostGpus found_;
  bool whole_ = false;  // the last one is not divided, as far as is known
};

HostGpus FindInDriverFolder() {
  HostGpus found;
  std::error_code error;
  const std::filesystem::directory_iterator folder(kDriverFolder, error);
  if (error) return found;  // no driver
  const auto count = static_cast<size_t>(std::distance(begin(folder), end(folder)));
  for (size_t number = 0; number < std::min(count, kMostGpus); ++number) {
    found.gpus.push_back({std::to_string(number), "NVIDIA GPU", ""});
  }
  if (count != 0) found.trouble = "there is NVIDIA's driver, and no nvidia-smi";
  return found;
}

// A machine may have the program from an image that it shares with others, and no card.
bool MayHaveCard() {
  constexpr std::string_view kNvidia = "0x10de";
  std::error_code error;
  if (std::filesystem::exists("/proc/driver/nvidia", error)) return true;
  if (std::filesystem::exists("/dev/nvidiactl", error)) return true;
  std::filesystem::directory_iterator device("/sys/bus/pci/devices", error);
  if (error) return true;  // not known
  for (; !error && device != std::filesystem::directory_iterator(); device.increment(error)) {
    const auto vendor = ReadFileIfExists(device->path() / "vendor", kMostVendorBytes);
    if (vendor && vendor->starts_with(kNvidia)) return true;
  }
  return false;
}

std::string WordsOf(const ProgramResult& program) {
  if (program.timed_out) return "no answer in time";
  std::string_view said = program.error_output;
  const std::string_view line = WithoutBlanks(TakeUpTo('\n', said));
  return line.empty() ? fmt::format("ended with {}", program.exit_code)
                      : std::string(line.substr(0, kMostTroubleBytes));
}

std::string_view Path() {
  const char* path = std::getenv("PATH");  // NOLINT(concurrency-mt-unsafe)
  return path == nullptr ? "" : path;
}

bool IsInPath(std::string_view program) {
  for (std::string_view rest = Path(); !rest.empty();) {
    const std::filesystem::path file = std::filesystem::path(TakeUpTo(':', rest)) / program;
    if (access(file.c_str(), X_OK) == 0) return true;
  }
  return false;
}

// amdgpu's way to programs that compute.
bool HasAmdDriver() {
  std::error_code error;
  return std::filesystem::exists("/dev/kfd", error);
}

HostGpus FindByRocm(TimePoint deadline) {
  std::optional<ProgramResult> result;
  try {
    result = RunProgram({.argv = {"rocm-smi", "--showproductname"}}, deadline);
  } catch (const Error&) {  // not installed
    return {};
  }
  HostGpus found = GpusInRocmListing(result->output);
  const bool is_fine = result->exit_code == 0 && !result->timed_out;
  if (!is_fine && (HasAmdDriver() || !found.gpus.empty())) {
    found.trouble = "rocm-smi: " + WordsOf(*result);
  }
  return found;
}

HostGpus FoundBy(const ProgramResult& nvidia_smi) {
  if (nvidia_smi.timed_out) return {.gpus = {}, .trouble = "nvidia-smi: no answer in time"};
  HostGpus found = GpusInListing(nvidia_smi.output);
  if (nvidia_smi.exit_code == kNoDriver && !MayHaveCard()) return {};
  const bool is_fine = nvidia_smi.exit_code == 0 || nvidia_smi.exit_code == kNoDevices;
  // Beside GPUs that it does list, what it says is a warning, whatever its exit code.
  if (is_fine && found.gpus.empty()) return {};
  if (!is_fine && found.trouble.empty()) found.trouble = WordsOf(nvidia_smi);
  if (!found.trouble.empty()) found.trouble = "nvidia-smi: " + found.trouble;
  return found;
}

// Where FindGpus has looked in vain.
std::string WhoFindsNone() {
  for (const std::string_view program : {"nvidia-smi", "rocm-smi"}) {
    if (IsInPath(program)) return fmt::format("{} finds none", program);
  }
  return fmt::format("there is no {}, and neither nvidia-smi nor rocm-smi in PATH={}",
                     kDriverFolder, Path());
}

[[noreturn]] void FailWithoutGpus(std::string_view wanted, const std::string& task) {
  throw Error(Phase::kGpus,
              fmt::format("{} is to use GPU{} {}, and no GPU is found on this host: {}", task,
                          wanted.find(',') == wanted.npos ? "" : "s", wanted, WhoFindsNone()),
              "if it has one, put the folder of nvidia-smi or rocm-smi into the PATH of its login "
              "shell; to compute on the CPU, write gpus = 0 (--set task.gpus=0)");
}

}  // namespace

HostGpus FindGpus(TimePoint deadline) {
  std::optional<ProgramResult> result;
  try {
    result = RunProgram({.argv = {"nvidia-smi", "-L"}}, deadline);
  } catch (const Error&) {  // not installed
    HostGpus found = FindInDriverFolder();
    return found.gpus.empty() ? FindByRocm(deadline) : found;
  }
  return FoundBy(*result);
}

void CheckKnown(const HostGpus& host) {
  if (!host.failed()) return;
  throw Error(Phase::kGpus, host.trouble,
              "mend the driver there (a reboot does it after an upgrade), or write gpus = 0 where "
              "no task needs a GPU (--set task.gpus=0)");
}

HostGpus UsableGpus() {
  HostGpus found = FindGpus(SystemClock().Now() + kNvidiaSmiLimit);
  CheckKnown(found);
  return found;
}

std::vector<std::string> IdsOf(const HostGpus& host) {
  std::vector<std::string> ids;
  for (const HostGpu& gpu : host.gpus) ids.push_back(gpu.id);
  return ids;
}

const HostGpus& GpusOfAttempt::In(int attempt) {
  if (attempt != attempt_) gpus_ = UsableGpus();
  attempt_ = attempt;
  return gpus_;
}

HostGpus GpusInListing(std::string_view text) {
  Listing listing;
  while (!text.empty()) listing.Read(WithoutBlanks(TakeUpTo('\n', text)));
  return listing.Take();
}

HostGpus GpusInRocmListing(std::string_view text) {
  constexpr std::string_view kBefore = "GPU[";
  constexpr std::string_view kName = "Card Series:";
  HostGpus found;
  while (!text.empty() && found.gpus.size() < kMostGpus) {
    std::string_view line = WithoutBlanks(TakeUpTo('\n', text));
    if (!line.starts_with(kBefore)) continue;
    line.remove_prefix(kBefore.size());
    const std::string number(TakeUpTo(']', line));
    if (number.empty() || number.find_first_not_of("0123456789") != number.npos) continue;
    if (found.gpus.empty() || found.gpus.back().id != number)
      found.gpus.push_back({number, "AMD GPU", ""});
    const size_t name = line.find(kName);
    if (name != line.npos) found.gpus.back().name = WithoutBlanks(line.substr(name + kName.size()));
  }
  return found;
}

bool HasOnlyAmdsTools() {
  std::error_code error;
  return IsInPath("rocm-smi") && !IsInPath("nvidia-smi") &&
         !std::filesystem::exists(kDriverFolder, error);
}

std::string VisibleGpus(const protocol::GpuShare& share, const std::vector<std::string>& gpus,
                        const std::string& task) {
  if (gpus.empty()) return {};
  const auto parts = static_cast<size_t>(share.parts);
  if (gpus.size() < parts) {
    throw Error(
        Phase::kGpus,
        // The role, not the task: what all slots of a host say alike is printed once.
        fmt::format("{} tasks that use GPUs are to share those of this host, and it has {} "
                    "(role {})",
                    parts, gpus.size(), task.substr(0, task.find(':'))),
        "run fewer of them there, or write gpus = 0 for those that need none (--set "
        "task.gpus=0); to share a GPU on purpose, let the host list it twice: gpus = [0, 0]");
  }
  const size_t each = gpus.size() / parts;
  const auto first = gpus.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(share.part) * each);
  return fmt::format("{}", fmt::join(first, first + static_cast<ptrdiff_t>(each), ","));
}

void CheckListedGpus(std::string_view listed, const HostGpus& host, const std::string& task) {
  if (host.gpus.empty() && !listed.empty()) FailWithoutGpus(listed, task);
  while (!listed.empty()) {
    const std::string_view gpu = TakeUpTo(',', listed);
    if (Has(host, gpu)) continue;
    throw Error(
        Phase::kGpus,
        fmt::format("{} is to use GPU {}, which this host does not have: it has {} GPU{} ({})",
                    task, gpu, host.gpus.size(), host.gpus.size() == 1 ? "" : "s",
                    fmt::join(IsUuid(gpu) ? UuidsOf(host) : IdsOf(host), ", ")),
        "correct `gpus`; without it, the tasks of a host share what it has");
  }
}

}  // namespace tfdist::agent
