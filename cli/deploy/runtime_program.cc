#include "cli/deploy/runtime_program.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <filesystem>

#include "base/error.h"

namespace tfdist::cli {
namespace {

constexpr int kGzipLevel = 1;  // sent once to each host: time to the first step counts, not size

}  // namespace

PackedFile PackRuntime() {
  const auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const auto beside = folder / "tfdist-runtime";
  const auto installed = folder.parent_path() / "libexec/tfdist/tfdist-runtime";
  for (const auto& path : {beside, installed}) {
    const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (fd.valid()) return PackedFile(fd.get(), kGzipLevel, true, "runtime");
  }
  throw Error(Phase::kFiles,
              fmt::format("the plan uses {{runtime}}, and there is no tfdist-runtime: neither {} "
                          "nor {}",
                          beside.string(), installed.string()),
              "build it (scripts/build), or keep it beside tfdist");
}

}  // namespace tfdist::cli
