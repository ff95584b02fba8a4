// The inputs of service_fuzz: one byte that says which server (ServerKind), then what peers send to
// it, turn after turn (turn.h). A header whose creation is 0 means the server's, which is random.
#pragma once

#include <cstdint>

#include "runtime/fuzz/turn.h"

namespace tfdist::runtime::fuzz {

enum class ServerKind : uint8_t {
  kEmpty,
  kTables,
  kLazyTables,
  kSync,
  kStaleness,
  kAllRows,  // move with every push
  kSyncAllRows,
};
inline constexpr uint8_t kServerKinds = 7;

// Of a turn.
inline constexpr uint8_t kPeerMask = 3;        // position of the sender in the list of peers
inline constexpr uint8_t kGoneAfterwards = 4;  // the peer's connection
inline constexpr uint8_t kTimePasses = 8;      // beforehand
// With one sequence number after the other. Once in a conversation, which is slow enough.
inline constexpr uint8_t kAgainAndAgain = 16;
inline constexpr int kTimesAgain = 140;

}  // namespace tfdist::runtime::fuzz
