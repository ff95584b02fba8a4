// What holders and keeper tell the agent: hints, one pipe, dropped when it is full. The truth is in
// the run folders; an agent that has lost notes reads those.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tfdist::agent {

enum class NoteKind : uint32_t {
  kStarted = 1,     // value: pid of the task, which is executing by now
  kExited = 2,      // `exit` is written; the holder still drains and cleans up
  kHolderDone = 3,  // the holder has ended, nothing of the run is left
  kHolderLost = 4,  // value: the signal that killed the holder, or 0; what it left has been killed
  kRefused = 5,  // value: errno. EBUSY: an earlier run's holder still works, ESHUTDOWN: the keeper
                 // is ending; nothing has happened then. Else `exit` says why there is no holder
  kUnkillable = 6,  // value: pid of what SIGKILL does not end (state D); its holder keeps trying
};

struct Note {
  NoteKind kind = NoteKind::kStarted;
  int32_t value = 0;
  std::string task;  // names of the folders: "worker-2", "run-1-1"
  std::string run;
};

// Writes one note without waiting; true when it was taken. An atomic write(2): notes of several
// processes never mix (pipe(7): PIPE_BUF).
bool SendNote(int fd, const Note& note) noexcept;

// All notes that are there now. `fd` is O_NONBLOCK.
std::vector<Note> ReceiveNotes(int fd);

}  // namespace tfdist::agent
