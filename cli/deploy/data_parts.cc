#include "cli/deploy/data_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "base/failures.h"
#include "base/hash.h"
#include "cli/plan/data.h"
#include "cli/plan/describe.h"

namespace tfdist::cli {
namespace {

namespace fs = std::filesystem;

bool IsDataFolder(const fs::path& path) { return fs::is_directory(path); }

char LetterOf(const WorkdirEntry& entry) {
  if (entry.is_folder()) return 'd';
  if (entry.is_link()) return 'l';
  return (entry.info.st_mode & S_IXUSR) != 0 ? 'x' : 'f';
}

std::string ContentKey(const WorkdirListing& listing, FileHashes& hashes) {
  Sha256 key;
  for (const WorkdirEntry& entry : listing.entries) {
    const std::string hash = entry.is_folder() ? "" : hashes.Of(entry);
    key.Update(fmt::format("{} {} ", LetterOf(entry), hash) + entry.path + '\0');
  }
  hashes.Save();
  return key.FinishHex();
}

// A message names them all, and has 16 MiB.
void CheckLargeFiles(const DataPlan& data, const WorkdirListing& listing) {
  constexpr ptrdiff_t kMostLargeFiles = 50'000;
  const auto is_large = [](const WorkdirEntry& entry) {
    return entry.size_bytes() >= kLargeFileBytes;
  };
  if (std::ranges::count_if(listing.entries, is_large) <= kMostLargeFiles) return;
  throw UsageError(
      Phase::kConfig,
      fmt::format("data {} has more than {} files of 1 MiB or more", data.name, kMostLargeFiles),
      "copy it to the hosts, and write its path there: { path = \"/data\" }");
}

// The archive's content, and each further copy of a large file.
uint64_t UnpackedBytes(const WorkdirListing& listing,
                       const std::vector<protocol::FileDescription>& large) {
  uint64_t bytes = listing.bytes;
  std::set<std::string> seen;
  for (const auto& file : large) {
    if (seen.insert(file.sha256).second) bytes -= file.size_bytes;
  }
  return bytes;
}

}  // namespace

DataParts::DataParts(const DataPlan& data)
    : name_(data.name),
      root_(IsDataFolder(data.source) ? data.source : data.source.parent_path()),
      file_(IsDataFolder(data.source) ? "" : data.source.filename().string()),
      listing_(ListData(data)),
      hashes_(root_, "data " + data.source.string()),
      key_(ContentKey(listing_, hashes_)) {
  CheckLargeFiles(data, listing_);
}

const protocol::DataOffer& DataParts::Offer(const std::function<void()>& meanwhile) {
  return made_.Get([this] { return Make(); }, meanwhile);
}

const PackedFile* DataParts::Pack(const std::string& sha256,
                                  const std::function<void()>& meanwhile) {
  return parts_ ? parts_->Pack(sha256, meanwhile) : nullptr;
}

protocol::DataOffer DataParts::Make() {
  auto parts = std::make_unique<WorkdirParts>(root_, listing_, hashes_);
  // Large files are hashed as they are packed; what tar(1) has read was no other than what the key is of.
  CheckUnchanged(root_, listing_);
  protocol::DataOffer offer;
  offer.key = key_;
  offer.files = parts->ArchiveDescriptions();
  offer.files.push_back(parts->times().description());
  offer.files.insert(offer.files.end(), parts->files().begin(), parts->files().end());
  offer.unpacked_bytes = UnpackedBytes(listing_, parts->files());
  parts_ = std::move(parts);
  return offer;
}

std::vector<std::unique_ptr<DataParts>> DataSentBy(const Plan& plan) {
  std::vector<protocol::TaskDescription> tasks;
  for (const TaskOnHost& task : plan.tasks) tasks.push_back(DescribeTask(plan, task));
  std::vector<std::unique_ptr<DataParts>> sent;
  for (const auto& described : DataOf(plan, tasks)) {
    const auto data = std::ranges::find(plan.data, described.name, &DataPlan::name);
    if (!data->source.empty()) sent.push_back(std::make_unique<DataParts>(*data));
  }
  return sent;
}

}  // namespace tfdist::cli
