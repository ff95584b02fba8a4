// What a container engine needs on its host to give NVIDIA's GPUs to containers.
#pragma once

#include <filesystem>
#include <optional>

#include "agent/container/engine.h"
#include "wire/host_check.h"

namespace tfdist::agent {

// What is missing, as far as its files tell: an engine may be told to look elsewhere. Below `root`.
std::optional<protocol::Trouble> GpuSupportTrouble(protocol::EngineKind engine,
                                                   const std::filesystem::path& root = "/");

}  // namespace tfdist::agent
