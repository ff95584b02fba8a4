// What `docker save`, `podman save` and tools that write OCI archives make of an image: one tar file with its configuration and
// the layers of its file system. Sources: Docker's image/spec/v1.2.md; the OCI image format, image-layout.md and manifest.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace tfdist::cli {

// A piece of the archive, by its content.
struct ImageBlob {
  std::string sha256;  // as the archive promises it: nobody has looked yet
  uint64_t offset = 0;
  uint64_t size_bytes = 0;
};

struct ArchivedImage {
  std::string name;  // "train:3"; empty: it has none
  std::string architecture;
  ImageBlob config;
  std::vector<ImageBlob>
      layers;  // from the lowest one on, as the archive has them: some are compressed
  std::vector<std::string>
      layer_ids;               // SHA-256 of what they are without that, as the configuration has it
  bool is_compressed = false;  // the archive: offsets are those of its content
};

// `fd` is borrowed; `file` is for errors. `wanted`: the name of one of several images; empty: the only one. Throws
// UsageError.
ArchivedImage ReadImageArchive(int fd, const std::string& file, const std::string& wanted);

}  // namespace tfdist::cli
