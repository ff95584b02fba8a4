// An image that a container engine of this machine has: docker, or else podman, as whoever calls this.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tfdist::cli {

struct LocalImage {
  std::string engine;  // its program
  std::string id;      // 64 hexadecimal digits
  std::string architecture;
  std::vector<std::string> layers;  // SHA-256 of each, not compressed
  uint64_t size_bytes = 0;
};

// Throws UsageError with what each engine says, where none has it.
LocalImage FindLocalImage(const std::string& name);

// Writes its archive (image_archive.h) to `fd`, which is borrowed. Throws Error(kFiles) with the engine's words.
void SaveImage(const std::string& engine, const std::string& id, int fd);

}  // namespace tfdist::cli
