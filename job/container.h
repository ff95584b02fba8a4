// The container that a task runs in, as a cluster file asks for it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "job/bytes.h"

namespace tfdist::protocol {

enum class EngineKind {
  kAuto,  // the first that answers on the host
  kDocker,
  kPodman,
  kApptainer,  // only with SIF files of the hosts
};

// A path of the host, and where it is in the container: both absolute. The first may begin with DataPath (task.h).
struct Mount {
  std::string source;
  std::string target;
  bool read_only = false;
  bool operator==(const Mount&) const = default;
};

struct ContainerDescription {
  std::string image;
  EngineKind engine = EngineKind::kAuto;
  std::vector<Mount> mounts;
  int64_t shm_size_bytes = 0;             // of /dev/shm; 0: the engine's own
  std::optional<std::string> entrypoint;  // instead of the image's; empty: none
};

// An image as a host has it.
struct ImageOnHost {
  std::string image;   // as the cluster file names it
  std::string id;      // 64 hexadecimal digits
  std::string engine;  // "docker 20.10.24"
};

void to_json(Json& json, const EngineKind& value);
void from_json(const Json& json, EngineKind& value);
void to_json(Json& json, const Mount& value);
void from_json(const Json& json, Mount& value);
void to_json(Json& json, const ContainerDescription& value);
void from_json(const Json& json, ContainerDescription& value);
void to_json(Json& json, const ImageOnHost& value);
void from_json(const Json& json, ImageOnHost& value);

}  // namespace tfdist::protocol
