#include "agent/data/data_unpack.h"

#include <chrono>
#include <optional>
#include <stop_token>
#include <system_error>
#include <utility>

#include "agent/container/image_load.h"
#include "agent/data/data_folder.h"
#include "base/error.h"

namespace tfdist::agent {
namespace {

void LoadOffered(const protocol::DataOffer& offer, const std::vector<protocol::WantedImage>& images,
                 const FilePlaces& places, const std::stop_token& stop) {
  const auto file = [&](const std::string& sha256) {
    return ImageFile{sha256, places.PathOf(sha256)};
  };
  ImageFiles files{file(offer.files.at(0).sha256), {}};
  for (const std::string& layer : offer.image_layers) files.layers.push_back(file(layer));
  for (const auto& image : images) {
    if (image.key == offer.key) LoadImage(image, files, stop);
  }
}

}  // namespace

DataUnpack::DataUnpack(std::filesystem::path base, std::string job)
    : base_(std::move(base)), job_(std::move(job)) {}

void DataUnpack::Begin(std::vector<protocol::DataOffer> offers,
                       std::vector<protocol::WantedImage> images) {
  offers_ = std::move(offers);
  images_ = std::move(images);
}

std::string DataUnpack::WaitsFor(const FilePlaces& places) {
  if (offers_.empty()) return "";
  if (!other_job_.valid()) Start(places);
  if (other_job_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return job_;
  std::string other = other_job_.get();
  if (other.empty()) offers_.clear();
  return other;
}

void DataUnpack::Start(const FilePlaces& places) {
  std::packaged_task<std::string(std::stop_token)> unpack([base = base_, job = job_,
                                                           offers = offers_, images = images_,
                                                           places](const std::stop_token& stop) {
    std::string other;
    for (const auto& offer : offers) {
      if (offer.is_image()) {
        LoadOffered(offer, images, places, stop);
        continue;
      }
      const auto by = DataFolder(base, offer.key).Unpack(places, offer, job, stop);
      if (by) other = *by;
    }
    return other;
  });
  other_job_ = unpack.get_future();
  try {
    thread_ = std::jthread(std::move(unpack));
  } catch (const std::system_error& error) {
    throw Error(Phase::kFiles, std::string("cannot start a thread: ") + error.what(),
                "raise ulimit -u");
  }
}

}  // namespace tfdist::agent
