// Data that is sent to a host, which keeps it by its content for later jobs.
//
//   CLI -> agent     data {keys, offers: []} -> {missing: [key]}       which it lacks; the others count as used
//                    need {files, data: [DataOffer]} -> {missing}      of their files, too, those that it lacks
//                    data {keys, offers} -> {missing, waits}           once they have come: it begins to unpack them
//                    data {keys, offers: []} -> {missing, waits}       again while `waits` names a job
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

struct DataOffer {
  std::string key;  // as DataDescription has it
  // As those of a work folder: an archive (no link), kWorkTimes, and large files at "work/PATH".
  std::vector<FileDescription> files;
  uint64_t unpacked_bytes = 0;  // on the disk beyond those files; 0 where it is only handed on
};

struct DataAsk {
  std::vector<std::string> keys;
  std::vector<DataOffer> offers;
};

struct DataState {
  std::vector<std::string> missing;  // keys; none while one waits
  std::string waits;  // the job that unpacks one of them just now, this one or another
};

#define TFDIST_BODY(T)                      \
  void to_json(Json& json, const T& value); \
  void from_json(const Json& json, T& value)
TFDIST_BODY(DataOffer);
TFDIST_BODY(DataAsk);
TFDIST_BODY(DataState);
#undef TFDIST_BODY

}  // namespace tfdist::protocol
