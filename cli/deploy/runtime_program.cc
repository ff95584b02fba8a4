#include "cli/deploy/runtime_program.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "base/unique_fd.h"
#include "cli/link/embedded_agent.h"
#include "cli/plan/describe.h"
#include "cli/plan/runtime_choice.h"

namespace tfdist::cli {
namespace {

constexpr int kGzipLevel = 1;  // sent once to each host: time to the first step counts, not size
constexpr const char* kCudaProgram = "tfdist-runtime-cuda";

std::array<std::filesystem::path, 2> PlacesOf(const char* name) {
  const auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  return {folder / name, folder.parent_path() / "libexec/tfdist" / name};
}

PackedFile Pack(const char* name, std::string_view link) {
  const auto places = PlacesOf(name);
  for (const auto& path : places) {
    const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (fd.valid()) return PackedFile({fd.get()}, kGzipLevel, true, std::string(link));
  }
  throw Error(Phase::kFiles,
              fmt::format("the plan uses {{runtime}}, and there is no {}: neither {} nor {}", name,
                          places[0].string(), places[1].string()),
              "build it (scripts/build), or keep it beside tfdist");
}

}  // namespace

PackedFile PackRuntime() { return Pack("tfdist-runtime", kRuntimeLink); }

PackedFile PackCudaRuntime() { return Pack(kCudaProgram, kCudaRuntimeLink); }

bool HasCudaRuntime() {
  return std::ranges::any_of(PlacesOf(kCudaProgram), [](const auto& path) {
    std::error_code none;
    return std::filesystem::exists(path, none);
  });
}

std::optional<protocol::Trouble> RuntimeTrouble(const Plan& plan, int slot,
                                                std::string_view machine) {
  const std::string_view ours = GetEmbeddedAgents().front().machine;
  if (machine == ours) return std::nullopt;
  const RuntimesUsed used = RuntimesOf(TasksFor(plan, slot));
  if (!used.cpu && !used.cuda) return std::nullopt;
  return protocol::Trouble{
      .why =
          fmt::format("its tasks use {{runtime}}, which is for {}; the host is {}", ours, machine),
      .remedy = "give the host other tasks, or a program of your own"};
}

}  // namespace tfdist::cli
