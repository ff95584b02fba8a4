#include "cli/deploy/workdir_hashes.h"

#include <array>
#include <fstream>
#include <system_error>

#include "base/hash.h"

namespace tfdist::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxFiles = 2000;
constexpr uint64_t kMaxBytes = 256ULL << 20;
constexpr size_t kHashDigits = 16;

std::string HashOfFile(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  Sha256 hash;
  std::array<char, 65536> block{};
  while (file.read(block.data(), block.size()) || file.gcount() > 0) {
    hash.Update({block.data(), static_cast<size_t>(file.gcount())});
  }
  return hash.FinishHex();
}

std::string HashOf(const fs::path& path, const WorkdirEntry& entry) {
  std::error_code error;
  return entry.is_link() ? Sha256Hex(fs::read_symlink(path, error).string()) : HashOfFile(path);
}

}  // namespace

std::map<std::string, std::string> HashWorkdir(const fs::path& workdir,
                                               const WorkdirListing& listing) {
  std::map<std::string, std::string> hashes;
  if (listing.files > kMaxFiles || listing.bytes > kMaxBytes) return hashes;
  for (const WorkdirEntry& entry : listing.entries) {
    if (entry.is_folder()) continue;
    hashes[entry.path] = HashOf(workdir / entry.path, entry).substr(0, kHashDigits);
  }
  return hashes;
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
