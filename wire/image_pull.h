// Images that a host lacks, pulled there by its container engine before `describe`.
//
//   CLI -> agent     pull {containers: [ContainerDescription]} -> {}    begins; takes the place of an earlier one
//                    pulled {} -> PullState                             how far it has come
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "job/bytes.h"

namespace tfdist::protocol {

namespace type {
inline constexpr std::string_view kPull = "pull";
inline constexpr std::string_view kPulled = "pulled";
}  // namespace type

struct PullState {
  bool done = false;   // all images are there, or one cannot be had
  std::string image;   // that is being pulled; empty: none
  uint64_t bytes = 0;  // written since then where the engine keeps images, by whomever
  std::string why;     // it cannot be had; empty: all is well
  std::string remedy;
};

void to_json(Json& json, const PullState& value);
void from_json(const Json& json, PullState& value);

}  // namespace tfdist::protocol
