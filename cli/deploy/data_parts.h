// Data of a plan that is sent: what is in it, and what hosts get that lack it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/deploy/file_hashes.h"
#include "cli/deploy/sent_parts.h"
#include "cli/deploy/workdir_list.h"
#include "cli/deploy/workdir_parts.h"
#include "cli/plan/plan.h"
#include "wire/data.h"

namespace tfdist::cli {

class DataParts : public SentParts {
 public:
  // Looks through it, and reads what has changed since the last time. Throws UsageError(kConfig) as ListData,
  // Error(kFiles).
  explicit DataParts(const DataPlan& data);

  [[nodiscard]] const std::string& name() const { return name_; }
  // By its content: paths, files, whether they are executable; 64 hexadecimal digits.
  [[nodiscard]] const std::string& key() const override { return key_; }
  [[nodiscard]] uint64_t size_bytes() const override { return listing_.bytes; }
  // Its name, where it is one file; else empty.
  [[nodiscard]] const std::string& file() const { return file_; }
  // From where the listing's paths count.
  [[nodiscard]] const std::filesystem::path& root() const { return root_; }
  [[nodiscard]] const WorkdirListing& listing() const { return listing_; }

  const protocol::DataOffer& Offer(const std::function<void()>& meanwhile) override;
  const PackedFile* Pack(const std::string& sha256,
                         const std::function<void()>& meanwhile) override;

 private:
  protocol::DataOffer Make();

  const std::string name_;
  const std::filesystem::path root_;  // the folder; of one file, that in which it is
  const std::string file_;
  const WorkdirListing listing_;
  FileHashes hashes_;
  const std::string key_;
  std::unique_ptr<WorkdirParts> parts_;  // written before `made_` has an offer, read after
  OfferOnce made_;
};

// The data of a plan that is sent and that its tasks name. Throws as DataParts.
std::vector<std::unique_ptr<DataParts>> DataSentBy(const Plan& plan);

}  // namespace tfdist::cli
