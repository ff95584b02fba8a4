#include "cli/image/image_archive.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "base/failures.h"
#include "base/hash.h"
#include "base/text.h"
#include "cli/image/tar_file.h"

namespace tfdist::cli {
namespace {

constexpr std::string_view kBlobFolder = "blobs/sha256/";
constexpr std::string_view kDigestPrefix = "sha256:";
constexpr size_t kShaDigits = 64;
constexpr size_t kShownImages = 8;
constexpr int kMostIndexes = 4;  // one in the other

// As a manifest names it.
struct ArchiveEntry {
  std::vector<std::string> names;
  std::string config;               // a path in the archive
  std::vector<std::string> layers;  // the same
};

class ArchiveReader {
 public:
  ArchiveReader(int fd, const std::string& file) : file_(file), tar_(fd, file) {}

  ArchivedImage Read(const std::string& wanted) try {
    const auto entries = ReadEntries();
    const ArchiveEntry& entry = Choose(entries, wanted);
    ArchivedImage image;
    image.is_compressed = tar_.is_compressed();
    image.name = NameOf(entry, wanted);
    image.config = Find(entry.config, "");
    const nlohmann::json config = DocumentAt(entry.config);
    image.config.sha256 = Sha256Hex(tar_.Find(entry.config)->document);
    image.architecture = config.at("architecture");
    for (const nlohmann::json& id : config.at("rootfs").at("diff_ids")) {
      image.layer_ids.push_back(Without(kDigestPrefix, id.get<std::string>()));
    }
    TakeLayers(entry, image);
    return image;
  } catch (const nlohmann::json::exception& error) {
    Fail(fmt::format("what it says of its image is damaged: {}", error.what()));
  }

 private:
  [[noreturn]] void Fail(const std::string& why, const std::string& remedy = {}) const {
    throw UsageError(Phase::kConfig, fmt::format("{}: {}", file_, why), remedy);
  }

  // "sha256:1a2b..." -> "1a2b..."
  std::string Without(std::string_view prefix, const std::string& id) const {
    std::string digits = id.starts_with(prefix) ? id.substr(prefix.size()) : "";
    const bool is_hash = digits.size() == kShaDigits &&
                         digits.find_first_not_of("0123456789abcdef") == std::string::npos;
    if (!is_hash) Fail("what it says of its image is damaged: a SHA-256 is none");
    return digits;
  }

  nlohmann::json DocumentAt(const std::string& path) const {
    const TarMember* member = tar_.Find(path);
    if (member == nullptr) Fail(fmt::format("its {} is missing", path));
    return nlohmann::json::parse(member->document);
  }

  ImageBlob Find(const std::string& path, const std::string& sha256) const {
    const TarMember* member = tar_.Find(path);
    if (member == nullptr) Fail(fmt::format("its {} is missing", path));
    return {path.starts_with(kBlobFolder) ? Without(kBlobFolder, path) : sha256, member->offset,
            member->size_bytes};
  }

  // A layer whose path is no hash is not compressed.
  void TakeLayers(const ArchiveEntry& entry, ArchivedImage& image) const {
    if (entry.layers.empty() || entry.layers.size() != image.layer_ids.size()) {
      Fail(fmt::format("it has {} layers, and the image's configuration {}", entry.layers.size(),
                       image.layer_ids.size()));
    }
    for (size_t at = 0; at < entry.layers.size(); ++at) {
      image.layers.push_back(Find(entry.layers[at], image.layer_ids[at]));
    }
  }

  std::vector<ArchiveEntry> ReadEntries() const {
    if (tar_.Find("manifest.json") != nullptr) return EntriesOf(DocumentAt("manifest.json"));
    if (tar_.Find("index.json") == nullptr) {
      Fail("it holds no image: neither manifest.json nor index.json is in it",
           "write it by `docker save`, `podman save` or as an OCI archive; what `docker export` "
           "writes is no image");
    }
    std::vector<ArchiveEntry> entries;
    AddIndex(DocumentAt("index.json"), {}, kMostIndexes, entries);
    return entries;
  }

  static std::vector<ArchiveEntry> EntriesOf(const nlohmann::json& manifest) {
    std::vector<ArchiveEntry> entries;
    for (const nlohmann::json& one : manifest) {
      ArchiveEntry& entry = entries.emplace_back();
      if (one.contains("RepoTags") && one["RepoTags"].is_array()) entry.names = one["RepoTags"];
      entry.config = one.at("Config");
      entry.layers = one.at("Layers");
    }
    return entries;
  }

  std::string BlobPath(const nlohmann::json& descriptor) const {
    return fmt::format("{}{}", kBlobFolder, Without(kDigestPrefix, descriptor.at("digest")));
  }

  // An index may hold others: one for each platform, and what was noted of how they were made (platform "unknown").
  void AddIndex(const nlohmann::json& index, const std::vector<std::string>& names, int below,
                std::vector<ArchiveEntry>& entries) const {
    if (below == 0) Fail("what it says of its image is damaged: an index in an index");
    for (const nlohmann::json& descriptor : index.at("manifests")) {
      const nlohmann::json platform = descriptor.value("platform", nlohmann::json::object());
      if (platform.value("architecture", "") == "unknown") continue;
      const auto notes = descriptor.value("annotations", nlohmann::json::object());
      auto own = names;
      for (const char* key : {"io.containerd.image.name", "org.opencontainers.image.ref.name"}) {
        if (own.empty() && notes.contains(key)) own.push_back(notes[key]);
      }
      const nlohmann::json manifest = DocumentAt(BlobPath(descriptor));
      if (manifest.contains("manifests")) {
        AddIndex(manifest, own, below - 1, entries);
        continue;
      }
      ArchiveEntry& entry = entries.emplace_back();
      entry.names = own;
      entry.config = BlobPath(manifest.at("config"));
      for (const nlohmann::json& layer : manifest.at("layers"))
        entry.layers.push_back(BlobPath(layer));
    }
  }

  static bool IsCalled(const ArchiveEntry& entry, const std::string& wanted) {
    const auto is = [&](const std::string& name) {
      return name == wanted || name == wanted + ":latest" || name.ends_with("/" + wanted) ||
             name.ends_with("/" + wanted + ":latest");
    };
    return std::ranges::any_of(entry.names, is);
  }

  static std::string NameOf(const ArchiveEntry& entry, const std::string& wanted) {
    if (!wanted.empty()) return wanted;
    return entry.names.empty() ? "" : entry.names.front();
  }

  const ArchiveEntry& Choose(const std::vector<ArchiveEntry>& entries,
                             const std::string& wanted) const {
    std::vector<const ArchiveEntry*> found;
    for (const ArchiveEntry& entry : entries) {
      if (wanted.empty() || IsCalled(entry, wanted)) found.push_back(&entry);
    }
    if (found.size() == 1) return *found.front();
    if (entries.empty()) Fail("it holds no image");
    if (found.empty()) {
      Fail(fmt::format("it holds no image {}; it holds {}", wanted, NamesOf(entries)));
    }
    if (!wanted.empty()) {
      Fail(fmt::format("it holds {} images {}", found.size(), wanted),
           "one of each platform? save the image for the hosts' own: --platform linux/amd64");
    }
    Fail(fmt::format("it holds {} images: {}", entries.size(), NamesOf(entries)),
         "name one of them: { archive = \"...\", name = \"...\" }");
  }

  static std::string NamesOf(const std::vector<ArchiveEntry>& entries) {
    std::vector<std::string> names;
    for (const ArchiveEntry& entry : entries) {
      names.push_back(entry.names.empty() ? "one without a name" : entry.names.front());
    }
    const size_t more = names.size() - std::min(names.size(), kShownImages);
    names.resize(names.size() - more);
    return fmt::format("{}{}", fmt::join(names, ", "),
                       more == 0 ? "" : fmt::format(" and {} more", more));
  }

  const std::string& file_;
  const TarFile tar_;
};

}  // namespace

ArchivedImage ReadImageArchive(int fd, const std::string& file, const std::string& wanted) {
  return ArchiveReader(fd, file).Read(wanted);
}

}  // namespace tfdist::cli
