// The file thread's part of the event log: the journal, what the disk has refused so far, and room
// for the job's end.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "agent/coordinator/disk/disk_reserve.h"
#include "agent/coordinator/disk/journal.h"

namespace tfdist::agent {

// What is written may wait for room, or is of the job's end and may use the reserve.
enum class Urgency { kUsual, kJobsEnd };

class EventWriter {
 public:
  // Throws Error(kFiles).
  EventWriter(const std::filesystem::path& journal, const std::filesystem::path& reserve,
              const JournalContent& content);

  // Writes the lines behind those that wait. Throws Error(kFiles) when the disk takes them not:
  // they wait then, in memory, for the next call. No lines: only what waits.
  void Write(std::string_view lines, bool sync, Urgency urgency);
  // As Journal::Replace, where nothing waits: the positions would be others then. False: something does.
  bool Replace(uint64_t begin, uint64_t end, std::string_view instead);
  // The first lines: where the disk takes them not, nothing of them stays.
  void WriteOrForget(std::string_view lines);

 private:
  Journal journal_;
  DiskReserve reserve_;
  std::string waiting_;
  bool sync_waits_ = false;
};

}  // namespace tfdist::agent
