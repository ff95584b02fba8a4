// An image of this machine that is sent: its layers, each by its content.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/unique_fd.h"
#include "cli/deploy/packed_once.h"
#include "cli/deploy/sent_parts.h"
#include "cli/image/image_archive.h"
#include "cli/plan/plan.h"

namespace tfdist::cli {

class ImageParts : public SentParts {
 public:
  // Borrows `image`, which has been looked at.
  explicit ImageParts(const ImagePlan& image) : image_(image) {}

  [[nodiscard]] const ImagePlan& image() const { return image_; }
  [[nodiscard]] const std::string& key() const override { return image_.key; }
  [[nodiscard]] uint64_t size_bytes() const override { return image_.size_bytes; }
  // Saves an image of a local engine to a temporary file first, and unpacks a compressed archive.
  const protocol::DataOffer& Offer(const std::function<void()>& meanwhile) override;
  const PackedFile* Pack(const std::string& sha256,
                         const std::function<void()>& meanwhile) override;

 private:
  protocol::DataOffer Make();
  [[nodiscard]] UniqueFd OpenArchive() const;
  [[nodiscard]] std::unique_ptr<PackedFile> Compress(const ImageBlob& blob,
                                                     const std::shared_ptr<UniqueFd>& spool,
                                                     const std::function<void()>& meanwhile) const;

  const ImagePlan& image_;
  // These are written before `made_` has an offer, and read after.
  UniqueFd archive_;                        // not compressed
  std::map<std::string, ImageBlob> blobs_;  // by their hashes
  PackedOnce packed_;
  OfferOnce made_;
};

}  // namespace tfdist::cli
