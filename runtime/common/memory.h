// What a process that moves large messages does once, first of all.
#pragma once

namespace tfdist::runtime {

// For the whole process: memory that was freed is kept for the next use and not given back to the
// system. Every message of 128 KiB and more would otherwise cost an mmap, a munmap and page faults,
// up to a third of the speed. Source: mallopt(3).
void KeepFreedMemory();

}  // namespace tfdist::runtime
