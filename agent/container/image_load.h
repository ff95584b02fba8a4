// Images of the user's machine: whether this host's engines have them, and how they get them.
#pragma once

#include <filesystem>
#include <stop_token>
#include <string>
#include <vector>

#include "base/clock.h"
#include "wire/data.h"

namespace tfdist::agent {

// Where it has the image under any name, it has the reference for it from then on. Throws Error(kCommand) where an engine does
// not answer, and where it has no room for an image that it lacks.
bool HasImage(const protocol::WantedImage& image, TimePoint deadline);

// A file that is part of an image, by its content.
struct ImageFile {
  std::string sha256;
  std::filesystem::path path;
};
struct ImageFiles {
  ImageFile config;
  std::vector<ImageFile> layers;  // from the lowest one on; some may be the same
};

// Gives the image, under its reference and no other name, to the engines that lack it. Blocks. Throws Error(kCommand) with
// their words, and once `stop` is requested.
void LoadImage(const protocol::WantedImage& image, const ImageFiles& files,
               const std::stop_token& stop);

// The text of an archive's manifest.json. The files are in it by their hashes.
std::string ManifestOf(const std::string& reference, const ImageFiles& files);

// The header of a file in a tar file, and what fills its last block up.
std::string TarHeader(const std::string& name, uint64_t size_bytes);
std::string TarPadding(uint64_t size_bytes);

}  // namespace tfdist::agent
