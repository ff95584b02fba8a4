#include "runtime/checkpoint/manifest.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <functional>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "base/file.h"
#include "base/json_numbers.h"
#include "runtime/common/crc32c.h"

namespace tfdist::runtime {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "ckpt-";
constexpr const char* kManifest = "manifest.json";
constexpr const char* kManifestFormat = "tfdist-manifest-1";
constexpr size_t kMaxManifestBytes = size_t{64} << 20;
constexpr size_t kMaxProgressBytes = 32;

std::optional<uint64_t> NumberIn(std::string_view text) {
  uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  if (text.empty() || parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return number;
}

std::optional<uint64_t> NumberOf(const fs::path& checkpoint) {
  const std::string name = checkpoint.filename().string();
  if (!name.starts_with(kPrefix)) return std::nullopt;
  return NumberIn(std::string_view(name).substr(kPrefix.size()));
}

// Of all that look like checkpoints, whole or not.
std::vector<uint64_t> NumbersIn(const fs::path& folder) {
  std::vector<uint64_t> numbers;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (const auto number = NumberOf(entry->path())) numbers.push_back(*number);
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    throw Error(Phase::kFiles, fmt::format("cannot read {}: {}", folder.string(), error.message()));
  }
  std::sort(numbers.begin(), numbers.end(), std::greater<>());
  return numbers;
}

fs::path ParentOf(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

json ShardsOf(const Manifest& manifest) {
  json shards = json::array();
  for (size_t i = 0; i < manifest.shards.size(); ++i) {
    shards.push_back({{"file", ShardName(i, manifest.shards.size())},
                      {"bytes", manifest.shards[i].bytes},
                      {"header_crc32c", manifest.shards[i].header_crc}});
  }
  return shards;
}

Manifest FromJson(const json& content) {
  Manifest manifest{content.at("number"), content.at("id"), content.at("step"), {}};
  for (const json& shard : content.at("shards")) {
    manifest.shards.push_back({shard.at("bytes"), shard.at("header_crc32c")});
  }
  return manifest;
}

bool IsShard(const fs::path& file) {
  const std::string name = file.filename().string();
  return name.starts_with("shard-") && (name.ends_with(".safetensors") || name.ends_with(".tmp"));
}

void RemoveFiles(const fs::path& checkpoint) {
  std::error_code ignored;
  fs::remove(checkpoint / kManifest, ignored);
  std::vector<fs::path> shards;
  for (fs::directory_iterator entry(checkpoint, ignored), end; !ignored && entry != end;
       entry.increment(ignored)) {
    if (IsShard(entry->path())) shards.push_back(entry->path());
  }
  for (const fs::path& shard : shards) fs::remove(shard, ignored);
  fs::remove(checkpoint, ignored);  // if it is empty
}

}  // namespace

std::string CheckpointName(uint64_t number) { return fmt::format("{}{}", kPrefix, number); }

std::string ShardName(size_t shard, size_t of) {
  return fmt::format("shard-{:05}-of-{:05}.safetensors", shard, of);
}

fs::path CheckpointAt(const fs::path& folder, uint64_t number) {
  const std::string name = CheckpointName(number);
  return folder.filename() == name ? folder : folder / name;
}

std::vector<uint64_t> CheckpointsIn(const fs::path& folder) {
  std::vector<uint64_t> numbers = NumbersIn(folder);
  std::erase_if(numbers, [&](uint64_t number) {
    std::error_code ignored;
    return !fs::exists(folder / CheckpointName(number) / kManifest, ignored);
  });
  return numbers;
}

fs::path NewestIn(const fs::path& folder) {
  if (NumberOf(folder)) return folder;
  const std::vector<uint64_t> numbers = CheckpointsIn(folder);
  if (numbers.empty()) {
    throw Error(Phase::kFiles, "no checkpoint in " + folder.string(),
                "a folder with ckpt-NUMBER/manifest.json in it");
  }
  return folder / CheckpointName(numbers.front());
}

std::string EncodeManifest(const Manifest& manifest) {
  json content = {{"format", kManifestFormat},
                  {"number", manifest.number},
                  {"id", manifest.id},
                  {"step", manifest.step},
                  {"shards", ShardsOf(manifest)}};
  const std::string crc = Crc32cText(Crc32c(content.dump()));
  content["crc32c"] = crc;
  return content.dump(2) + "\n";
}

std::optional<Manifest> DecodeManifest(const std::string& text) {
  try {
    const json content = json::parse(text);
    if (!NumbersFit(content)) return std::nullopt;
    Manifest manifest = FromJson(content);
    // The checksum included.
    if (EncodeManifest(manifest) == text) return manifest;
  } catch (const json::exception&) {
    // As for any other damage.
  }
  return std::nullopt;
}

Manifest ReadManifest(const fs::path& checkpoint) {
  const fs::path file = checkpoint / kManifest;
  const std::optional<std::string> text = ReadFileIfExists(file, kMaxManifestBytes);
  if (!text) throw Error(Phase::kFiles, file.string() + " is missing");
  if (auto manifest = DecodeManifest(*text)) return std::move(*manifest);
  throw Error(Phase::kFiles, file.string() + " is damaged");
}

void WriteManifest(const fs::path& checkpoint, const Manifest& manifest) {
  ReplaceFile(checkpoint / kManifest, EncodeManifest(manifest), 0644);
}

void MakeCheckpoint(const fs::path& checkpoint) {
  std::error_code error;
  std::vector<fs::path> changed = {
      ParentOf(checkpoint)};  // at every time: another server may have made it
  while (!fs::exists(changed.back(), error)) changed.push_back(ParentOf(changed.back()));
  fs::create_directories(checkpoint, error);
  if (error) {
    throw Error(Phase::kFiles,
                fmt::format("cannot make {}: {}", checkpoint.string(), error.message()));
  }
  for (const fs::path& folder : changed) SyncFolder(folder);
}

void RemoveManifest(const fs::path& checkpoint) {
  std::error_code error;
  fs::remove(checkpoint / kManifest, error);
  if (error) {
    throw Error(Phase::kFiles, fmt::format("cannot remove the manifest of {}: {}",
                                           checkpoint.string(), error.message()));
  }
}

void RemoveOthersBefore(const fs::path& folder, uint64_t number,
                        const std::vector<uint64_t>& kept) {
  for (const uint64_t other : NumbersIn(folder)) {
    if (other >= number || std::find(kept.begin(), kept.end(), other) != kept.end()) continue;
    RemoveFiles(folder / CheckpointName(other));
  }
}

std::optional<uint64_t> ReadProgress(const fs::path& folder) {
  try {
    const auto text = ReadFileIfExists(folder / "progress", kMaxProgressBytes);
    return text ? NumberIn(std::string_view(*text).substr(0, text->find_first_of(" \n")))
                : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

void WriteProgress(const fs::path& folder, uint64_t step) {
  const UniqueFd fd(open((folder / "progress").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  const std::string text = fmt::format("{:<20}\n", step);
  if (fd.valid()) (void)!pwrite(fd.get(), text.data(), text.size(), 0);
}

}  // namespace tfdist::runtime
