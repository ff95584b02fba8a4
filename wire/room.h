// Whether a machine that carries several slots of one job has room for all of them: each agent by itself sees only its own.
#pragma once

#include <cstdint>
#include <string_view>

#include "wire/protocol.h"

namespace tfdist::protocol {

inline constexpr std::string_view kRoomRequest = "room";  // Room -> {}; an error names the limit

struct Room {
  int threads = 0;      // that the agents there and their tasks are going to start
  int descriptors = 0;  // of the agent that is asked
};

void to_json(Json& json, const Room& value);
void from_json(const Json& json, Room& value);

// Of a task: its holder and itself.
inline constexpr int kThreadsOfATask = 2;
// Of an agent that is described its tasks: two of libzmq, which has none before its first socket; one that looks at tasks.
inline constexpr int kThreadsToCome = 3;
// An agent's own; libzmq aborts or spins where there are none.
inline constexpr int kDescriptorsOfAnAgent = 64;
// Of the first slot's, for each other slot.
inline constexpr int kDescriptorsOfAMember = 2;

// Files and folders that a slot makes by itself, with one task; and those of them that it makes once its tasks are known.
inline constexpr uint64_t kFilesOfASlot = 32;
inline constexpr uint64_t kFilesToCome = 16;

// The largest file that a slot must be able to write: its event log with the room that is kept for the job's end.
inline constexpr uint64_t kFileBytesOfASlot = 4 << 20;

}  // namespace tfdist::protocol
