// What lies in {keep} on a host when a job of that name starts: in the answer to `describe`.
#pragma once

#include <cstdint>
#include <string>

#include "job/bytes.h"

namespace tfdist::protocol {

struct KeptFiles {
  uint64_t files = 0;
  uint64_t bytes = 0;
  std::string newest;  // below the folder; empty: there is none
  int64_t age_s = 0;   // of the newest, by the host's clock
  bool all = true;     // false: there may be more, since there was no time to look at all
  bool operator==(const KeptFiles&) const = default;
};
void to_json(Json& json, const KeptFiles& value);
void from_json(const Json& json, KeptFiles& value);

}  // namespace tfdist::protocol
