#include "cli/deploy/workdir_hashes.h"

namespace tfdist::cli {
namespace {

constexpr size_t kMaxFiles = 2000;
constexpr size_t kHashDigits = 16;

}  // namespace

std::map<std::string, std::string> HashesByPath(const WorkdirListing& listing, FileHashes& hashes) {
  std::map<std::string, std::string> found;
  if (listing.files > kMaxFiles) return found;
  for (const WorkdirEntry& entry : listing.entries) {
    if (!entry.is_folder()) found[entry.path] = hashes.Of(entry).substr(0, kHashDigits);
  }
  return found;
}

std::vector<std::string> ChangedFiles(const std::map<std::string, std::string>& before,
                                      const std::map<std::string, std::string>& after) {
  std::vector<std::string> changed;
  for (const auto& [path, hash] : after) {
    const auto old = before.find(path);
    if (old == before.end()) {
      changed.push_back(path + " (new)");
    } else if (old->second != hash) {
      changed.push_back(path);
    }
  }
  for (const auto& [path, hash] : before) {
    if (!after.contains(path)) changed.push_back(path + " (gone)");
  }
  return changed;
}

}  // namespace tfdist::cli
