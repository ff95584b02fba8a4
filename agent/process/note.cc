#include "agent/process/note.h"

#include <limits.h>
#include <unistd.h>

#include "agent/process/wire.h"

namespace tfdist::agent {

static_assert(sizeof(WireMessage) <= PIPE_BUF, "pipe(7): written as a whole");

bool SendNote(int fd, const Note& note) noexcept {
  const WireMessage wire(static_cast<uint32_t>(note.kind), note.value, note.task, note.run);
  return write(fd, &wire, sizeof wire) == static_cast<ssize_t>(sizeof wire);
}

std::vector<Note> ReceiveNotes(int fd) {
  std::vector<Note> notes;
  WireMessage wire;
  while (read(fd, &wire, sizeof wire) == static_cast<ssize_t>(sizeof wire)) {
    notes.push_back({.kind = static_cast<NoteKind>(wire.kind),
                     .value = wire.value,
                     .task = wire.Task(),
                     .run = wire.Run()});
  }
  return notes;
}

}  // namespace tfdist::agent
