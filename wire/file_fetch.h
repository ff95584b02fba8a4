// Files of the job that a host gets from the first host, instead of over the user's uplink.
//
//   CLI -> agent     fetch {files: [FileDescription]} -> {}    once its coordinator has answered; takes the
//                    place of an earlier one, so an empty list ends it
//                    fetched {} -> Fetched                     how far it has come
//   agent -> slot 0  ask_file FileAsk                          over the connection for log bytes
//   slot 0 -> agent  file_part FilePart                        answers one ask, or is lost
//
// The agent asks for the parts of a file in order, and for several before the first has come; what does
// not come is asked for again. Slot 0 keeps nothing of it in mind. It answers from a file that is still
// on its way to it, too.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "job/bytes.h"

namespace tfdist::protocol {

namespace type {
inline constexpr std::string_view kFetch = "fetch";
inline constexpr std::string_view kFetched = "fetched";
inline constexpr std::string_view kAskFile = "ask_file";
inline constexpr std::string_view kFilePart = "file_part";
}  // namespace type

// Each part of a file but its last has this size; fits a frame.
inline constexpr uint64_t kFilePartBytes = 48 * 1024;

struct Fetched {
  uint64_t bytes = 0;                // of content that has come
  bool done = false;                 // nothing more will come
  std::vector<std::string> missing;  // SHA-256 of what could not be had, once it is given up
  std::string why;                   // of the first of them
};

struct FileAsk {
  std::string sha256;
  uint64_t offset = 0;  // a multiple of kFilePartBytes
};

enum class PartState : uint8_t {
  kData = 0,
  kLater = 1,  // it is not here yet
  kNone = 2,   // nor will it come
};

struct FilePart {
  std::string sha256;
  uint64_t offset = 0;
  PartState state = PartState::kNone;
  std::string data;  // the payload
};

#define TFDIST_BODY(T)                      \
  void to_json(Json& json, const T& value); \
  void from_json(const Json& json, T& value)
TFDIST_BODY(Fetched);
TFDIST_BODY(FileAsk);
TFDIST_BODY(FilePart);
#undef TFDIST_BODY

}  // namespace tfdist::protocol
