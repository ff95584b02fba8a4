// Data that is sent to a host, which keeps it by its content for later jobs; and images of the user's machine, which the host's
// container engine keeps.
//
//   CLI -> agent     data {keys, offers: [], images} -> {missing: [key]}   which it lacks; the others count as used
//                    need {files, data: [DataOffer]} -> {missing}          of their files, too, those that it lacks
//                    data {keys, offers, images} -> {missing, waits}       once they have come: it begins to unpack or load them
//                    data {keys, offers: [], images} -> {missing, waits}   again while `waits` names a job
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "wire/protocol.h"

namespace tfdist::protocol {

namespace type {
inline constexpr std::string_view kData = "data";
}  // namespace type

// What the names of such images begin with on the hosts.
inline constexpr std::string_view kSentImages = "localhost/tfdist/";

// An image that tasks of a host run in.
struct WantedImage {
  std::string key;                  // that of a DataOffer; often, and not always, the image's id
  std::string reference;            // by which the host's engines know it from then on
  std::vector<EngineKind> engines;  // those of the tasks
  std::vector<std::string> layers;  // SHA-256 of each, not compressed
  uint64_t size_bytes = 0;          // of all of them
};

struct DataOffer {
  std::string key;  // as DataDescription has it
  // As those of a work folder: an archive (no link), kWorkTimes, and large files at "work/PATH".
  std::vector<FileDescription> files;
  uint64_t unpacked_bytes = 0;  // on the disk beyond those files; 0 where it is only handed on
  // Of an image: those of `files` that are its layers, from the lowest one on; the first of `files` is its configuration.
  std::vector<std::string> image_layers;

  [[nodiscard]] bool is_image() const { return !image_layers.empty(); }
};

struct DataAsk {
  std::vector<std::string> keys;
  std::vector<DataOffer> offers;
  std::vector<WantedImage> images;  // some of the keys
};

struct DataState {
  std::vector<std::string> missing;  // keys; none while one waits
  std::string waits;  // the job that unpacks one of them just now, this one or another
};

#define TFDIST_BODY(T)                      \
  void to_json(Json& json, const T& value); \
  void from_json(const Json& json, T& value)
TFDIST_BODY(WantedImage);
TFDIST_BODY(DataOffer);
TFDIST_BODY(DataAsk);
TFDIST_BODY(DataState);
#undef TFDIST_BODY

}  // namespace tfdist::protocol
