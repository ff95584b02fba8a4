// What an agent says to role `start` of another job: whether its own job still has a
// coordinator or a command that decides about it.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

#include "wire/protocol.h"

namespace tfdist::agent {

// A host that the coordinator has not heard for so long counts as lost, and its agent must expect
// that it does.
inline constexpr std::chrono::milliseconds kLostAfter{11'000};

inline constexpr std::string_view kContactRequest = "contact";  // {} -> Contact

struct Contact {
  bool committed = false;
  bool over = false;       // the job has ended, as this agent knows
  bool clear = false;      // nothing of it runs here any more, but for this agent
  bool attended = false;   // another session is open than the one that asks
  int64_t silence_ms = 0;  // since the coordinator was heard; before the commit: the CLI
};

void to_json(protocol::Json& json, const Contact& value);
void from_json(const protocol::Json& json, Contact& value);

}  // namespace tfdist::agent
