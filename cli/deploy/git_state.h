// Which commit a work folder is at.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/clock.h"

namespace tfdist::cli {

struct GitState {
  std::string commit;
  bool changed = false;  // files differ from it, or are unknown to it
};

// What git says of the repository that `folder` is in. nullopt: it is in none, git is not installed, or says nothing by
// `deadline`.
std::optional<GitState> GitStateOf(const std::filesystem::path& folder, TimePoint deadline);

}  // namespace tfdist::cli
