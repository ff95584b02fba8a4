// SIF files: images of apptainer.
#pragma once

#include <string>

namespace tfdist::agent {

struct Sif {
  // Of the file's size and first bytes: those have an id that is made anew with each image (SIF's global header), and what lies
  // where in the file.
  std::string id;
  std::string architecture;  // "amd64"
};

// `image` is a path of this host. Throws Error(kCommand) for anything else than a SIF file.
Sif LookAtSif(const std::string& image);

}  // namespace tfdist::agent
