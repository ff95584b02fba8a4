#include "agent/container/gpu_support.h"

#include <string>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "base/file.h"

namespace tfdist::agent {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostSpecBytes = 1 << 20;

// What docker's `--gpus` runs.
bool HasHook(const fs::path& root) {
  for (const char* folder : {"usr/bin", "usr/local/bin", "usr/sbin", "bin"}) {
    for (const char* name : {"nvidia-container-runtime-hook", "nvidia-container-toolkit"}) {
      std::error_code error;
      if (fs::exists(root / folder / name, error)) return true;
    }
  }
  return false;
}

bool NamesNvidia(const fs::path& spec) {
  try {
    return ReadFileIfExists(spec, kMostSpecBytes).value_or("").find("nvidia.com/gpu") !=
           std::string::npos;
  } catch (const Error&) {
    return true;  // it is not for us to read
  }
}

// podman reads the devices of the container device interface there.
bool HasSpec(const fs::path& root) {
  for (const char* folder : {"etc/cdi", "var/run/cdi", "run/cdi"}) {
    std::error_code error;
    // Not a range's for: its ++ throws.
    for (fs::directory_iterator entry(root / folder, error);
         !error && entry != fs::directory_iterator(); entry.increment(error)) {
      if (NamesNvidia(entry->path())) return true;
    }
  }
  return false;
}

}  // namespace

std::optional<protocol::Trouble> GpuSupportTrouble(protocol::EngineKind engine,
                                                   const fs::path& root) {
  if (engine == protocol::EngineKind::kDocker && !HasHook(root)) {
    return protocol::Trouble{"docker gives containers no GPU without NVIDIA's container toolkit",
                             "install nvidia-container-toolkit on that host"};
  }
  if (engine == protocol::EngineKind::kPodman && !HasSpec(root)) {
    return protocol::Trouble{"podman finds no description of NVIDIA's GPUs in /etc/cdi",
                             "nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml, on that host"};
  }
  return std::nullopt;  // apptainer takes the driver's own files (--nv)
}

}  // namespace tfdist::agent
