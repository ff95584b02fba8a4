// The set-up command of a job on a host (SetUpDescription), while it runs.
//
//   CLI -> agent     set_up SetUpAsk -> SetUpProgress     after a `describe` that was answered with {set_up: true}, until
//                    it is done; an error once the command has failed
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "job/bytes.h"

namespace tfdist::protocol {

namespace type {
inline constexpr std::string_view kSetUp = "set_up";
}  // namespace type

struct SetUpAsk {
  uint64_t offset = 0;  // in its output: what has come until now
};

struct SetUpProgress {
  uint64_t offset = 0;    // behind `output`
  uint64_t left_out = 0;  // bytes before `output` that do not come: there was too much at once
  Bytes output;
  std::string waits;  // once it is done: why a port is not free yet, as `ports` answers
  bool done = false;  // it has succeeded, the tasks' commands are there, and all output has come
};

#define TFDIST_BODY(T)                      \
  void to_json(Json& json, const T& value); \
  void from_json(const Json& json, T& value)
TFDIST_BODY(SetUpAsk);
TFDIST_BODY(SetUpProgress);
#undef TFDIST_BODY

}  // namespace tfdist::protocol
