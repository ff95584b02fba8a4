#include "cli/deploy/image_parts.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <utility>

#include "base/error.h"
#include "cli/deploy/listed_files.h"
#include "cli/image/local_image.h"
#include "cli/image/tar_file.h"
#include "cli/plan/containers.h"

namespace tfdist::cli {
const protocol::DataOffer& ImageParts::Offer(const std::function<void()>& meanwhile) {
  return made_.Get([this] { return Make(); }, meanwhile);
}

UniqueFd ImageParts::OpenArchive() const {
  if (image_.archive.empty()) {
    CheckTemporaryRoom(image_.size_bytes);
    UniqueFd saved = TemporaryFile();
    SaveImage(image_.engine, image_.key, saved.get());
    return saved;
  }
  UniqueFd archive = OpenListed(image_.archive, O_RDONLY);
  if (!TarFile(archive.get(), image_.archive.string()).is_compressed()) return archive;
  UniqueFd plain = TemporaryFile();
  Uncompress(archive.get(), image_.archive.string(),
             [&](std::string_view piece) { WriteTemporary(plain.get(), piece); });
  return plain;
}

protocol::DataOffer ImageParts::Make() {
  UniqueFd archive = OpenArchive();
  const std::string wanted = image_.archive.empty() ? "" : image_.name;
  const ArchivedImage found = ReadImageArchive(archive.get(), SourceText(image_), wanted);
  if (found.layer_ids != image_.layers) throw HasChanged("image " + SourceText(image_));
  protocol::DataOffer offer;
  offer.key = image_.key;
  std::map<std::string, ImageBlob> blobs;
  const auto add = [&](const ImageBlob& blob) {
    if (!blobs.emplace(blob.sha256, blob).second) return;
    offer.files.push_back({blob.sha256, blob.size_bytes, false, ""});
  };
  add(found.config);
  for (const ImageBlob& layer : found.layers) {
    add(layer);
    offer.image_layers.push_back(layer.sha256);
  }
  blobs_ = std::move(blobs);
  archive_ = std::move(archive);
  return offer;
}

const PackedFile* ImageParts::Pack(const std::string& sha256,
                                   const std::function<void()>& meanwhile) {
  const auto blob = blobs_.find(sha256);
  if (blob == blobs_.end()) return nullptr;
  return packed_.Get(
      sha256, [&](const auto& spool) { return Compress(blob->second, spool, meanwhile); },
      meanwhile);
}

std::unique_ptr<PackedFile> ImageParts::Compress(const ImageBlob& blob,
                                                 const std::shared_ptr<UniqueFd>& spool,
                                                 const std::function<void()>& meanwhile) const {
  const FileRange content{archive_.get(), blob.offset, blob.size_bytes};
  auto made = std::make_unique<PackedFile>(content, LevelFor(content), false, "", spool, meanwhile);
  if (made->description().sha256 == blob.sha256) return made;
  throw Error(Phase::kFiles,
              fmt::format("a layer of image {} is not what the image says of it: the archive is "
                          "damaged, or has changed",
                          SourceText(image_)),
              "save the image anew");
}

}  // namespace tfdist::cli
