#include "cli/deploy/workdir_files.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>

#include "base/hash.h"

namespace tfdist::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxFiles = 2000;
constexpr uint64_t kMaxBytes = 256ULL << 20;
constexpr size_t kHashDigits = 16;

// As tar(1) --exclude-vcs has them.
constexpr std::array<std::string_view, 6> kVersionControl = {".git", ".svn",   ".hg",
                                                             ".bzr", "_darcs", "CVS"};

std::string HashOfFile(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  Sha256 hash;
  std::array<char, 65536> block{};
  while (file.read(block.data(), block.size()) || file.gcount() > 0) {
    hash.Update({block.data(), static_cast<size_t>(file.gcount())});
  }
  return hash.FinishHex();
}

// nullopt for a folder, and what is neither file nor link.
std::optional<std::string> HashOf(const fs::directory_entry& entry) {
  std::error_code error;
  if (entry.is_symlink(error)) return Sha256Hex(fs::read_symlink(entry.path(), error).string());
  if (!entry.is_regular_file(error)) return std::nullopt;
  return HashOfFile(entry.path());
}

bool IsVersionControl(const fs::path& path) {
  return std::ranges::find(kVersionControl, path.filename().string()) != kVersionControl.end();
}

}  // namespace

void VisitWorkdir(const fs::path& workdir, const VisitEntry& visit) {
  std::error_code error;
  const auto options = fs::directory_options::skip_permission_denied;
  // Not a range's for: its ++ throws.
  for (fs::recursive_directory_iterator entry(workdir, options, error);
       !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    if (IsVersionControl(entry->path())) {
      entry.disable_recursion_pending();
    } else if (!visit(*entry, entry->path().lexically_relative(workdir))) {
      return;
    }
  }
}

uint64_t FileBytes(const fs::directory_entry& entry) {
  std::error_code error;
  if (entry.is_symlink(error) || !entry.is_regular_file(error)) return 0;
  const auto size_bytes = entry.file_size(error);
  return error ? 0 : size_bytes;
}

std::map<std::string, std::string> HashWorkdir(const fs::path& workdir) {
  std::map<std::string, std::string> hashes;
  uint64_t bytes = 0;
  bool is_small = true;
  VisitWorkdir(workdir, [&](const fs::directory_entry& entry, const fs::path& path) {
    bytes += FileBytes(entry);
    is_small = bytes <= kMaxBytes && hashes.size() < kMaxFiles;
    if (!is_small) return false;
    if (const auto hash = HashOf(entry)) hashes[path.string()] = hash->substr(0, kHashDigits);
    return true;
  });
  if (!is_small) hashes.clear();
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
