#include "runtime/device/device_choice.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <iterator>
#include <string>
#include <system_error>

#include "base/error.h"
#include "runtime/device/cpu_device.h"

namespace tfdist::runtime {
namespace {

constexpr std::string_view kCuda = "cuda";
constexpr int kMostGpus = 1024;  // as in a cluster file

// tfdist leaves it empty for tasks that are to see none.
bool MaySeeGpus() {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return visible == nullptr || *visible != '\0';
}

}  // namespace

DeviceChoice ParseDeviceChoice(std::string_view text) {
  using Kind = DeviceChoice::Kind;
  if (text == "auto") return {Kind::kAuto, 0};
  if (text == "cpu") return {Kind::kCpu, 0};
  if (text == kCuda) return {Kind::kCuda, 0};
  if (text.starts_with(kCuda) && text.size() > kCuda.size() + 1 && text[kCuda.size()] == ':') {
    DeviceChoice choice{Kind::kCuda, -1};
    const char* const end = text.data() + text.size();
    const auto [stopped, error] = std::from_chars(text.data() + kCuda.size() + 1, end, choice.gpu);
    if (error == std::errc() && stopped == end && choice.gpu >= 0 && choice.gpu < kMostGpus) {
      return choice;
    }
  }
  throw Error(Phase::kUsage,
              fmt::format("--device: expected auto, cpu, cuda or cuda:N, got {}", text));
}

size_t CountGpusOfTheHost(const std::filesystem::path& folder) {
  std::error_code error;
  size_t count = 0;
  // Not a range's for: its ++ throws.
  for (std::filesystem::directory_iterator gpu(folder, error);
       !error && gpu != std::filesystem::directory_iterator(); gpu.increment(error)) {
    ++count;
  }
  return count;
}

std::unique_ptr<Device> MakeCpuDevice(const DeviceChoice& choice, const Say& say) {
  if (choice.kind == DeviceChoice::Kind::kCuda) {
    throw Error(
        Phase::kConfig,
        fmt::format("--device cuda:{}: this executable computes on the CPU alone", choice.gpu),
        "tfdist-runtime-cuda, which {runtime} is for tasks that may see a GPU where tfdist "
        "was built with CUDA; --device cpu computes without");
  }
  const size_t gpus = CountGpusOfTheHost();
  if (choice.kind == DeviceChoice::Kind::kAuto && gpus > 0 && MaySeeGpus()) {
    say(fmt::format(
        "computes on the CPU: this is tfdist-runtime, tfdist-runtime-cuda would use a GPU "
        "(this host has {})",
        gpus));
  }
  return std::make_unique<CpuDevice>();
}

}  // namespace tfdist::runtime
