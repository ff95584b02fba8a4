// Starts a thread that unpacks a job's data, and gives images to container engines. That may take half an hour, and the file thread answers other hosts
// meanwhile. One thread at a time may call it.
#pragma once

#include <filesystem>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "agent/files/file_places.h"
#include "wire/data.h"

namespace tfdist::agent {

class DataUnpack {
 public:
  DataUnpack(std::filesystem::path base, std::string job);
  // Ends what it does, and waits for that: for tar(1) a moment, for the disk as long as it takes.
  ~DataUnpack() = default;

  // Once all parts of them are there. `images`: what to do with those of the offers that are images.
  void Begin(std::vector<protocol::DataOffer> offers, std::vector<protocol::WantedImage> images);
  // The job that unpacks one of them just now, this one or another: ask again. Empty: nothing is left to be unpacked.
  // Throws Error(kFiles) as DataFolder::Unpack, and as LoadImage.
  [[nodiscard]] std::string WaitsFor(const FilePlaces& places);

 private:
  void Start(const FilePlaces& places);

  const std::filesystem::path base_;
  const std::string job_;
  std::vector<protocol::DataOffer> offers_;
  std::vector<protocol::WantedImage> images_;
  std::future<std::string> other_job_;  // the outcome of one try
  std::jthread thread_;
};

}  // namespace tfdist::agent
