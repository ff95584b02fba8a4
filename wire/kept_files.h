// What lies in {keep} on a host when a job of that name starts.
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
// Who has kept them, where it is not only the user who starts the job.
struct KeptBy {
  std::string
      who;  // started the last job there: "alice@laptop"; empty: this very user, or it is not known
  bool is_stranger =
      false;  // no job of this user has used them: the new one may not, unless told to
  bool operator==(const KeptBy&) const = default;
};

// The answer to `kept`, and a part of that to `describe` and `survey`.
struct KeptFound {
  KeptFiles kept;
  KeptBy kept_by;
};

void to_json(Json& json, const KeptFound& value);
void from_json(const Json& json, KeptFound& value);
void to_json(Json& json, const KeptBy& value);
void from_json(const Json& json, KeptBy& value);
void to_json(Json& json, const KeptFiles& value);
void from_json(const Json& json, KeptFiles& value);

}  // namespace tfdist::protocol
