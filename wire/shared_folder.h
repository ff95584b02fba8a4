// The requests by which the CLI finds out whether `shared` is one folder on all hosts: slot 0 makes
// a file of a new name there, the other slots look for it, slot 0 removes it. Sent while deploying, and only for a plan with a shared folder.
//
//   mark_shared {path, mark}     -> SharedFolder
//   find_mark {path, mark}       -> SharedFolder
//   unmark_shared {path, mark}   -> {}
#pragma once

#include <string>
#include <string_view>

#include "job/bytes.h"

namespace tfdist::protocol {

namespace type {
inline constexpr std::string_view kMarkShared = "mark_shared";
inline constexpr std::string_view kFindMark = "find_mark";
inline constexpr std::string_view kUnmarkShared = "unmark_shared";
}  // namespace type

struct SharedFolder {
  bool marked = false;  // the file was made; was found
  std::string why;      // the folder cannot be used at all: "/mnt/out: No such file or directory"
};
void to_json(Json& json, const SharedFolder& value);
void from_json(const Json& json, SharedFolder& value);

}  // namespace tfdist::protocol
