// The one writer of a task's log: appends text to files in the task's folder, and says beside it
// where each piece came from. processes.md has the format.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>

#include "wire/protocol.h"

namespace tfdist::agent {

struct LogOptions {
  std::filesystem::path folder;       // the task's folder
  uint64_t limit_bytes = 1ULL << 30;  // of text and index together; the oldest files go first
  int attempt = 1;                    // of what is appended
  int run = 1;
};

// Never throws and never blocks for want of space: text that cannot be written is dropped, counted,
// and said so by a line of stream kTfdist as soon as there is room again. Opens its files at the
// first use, and indexes what an earlier writer left unindexed.
class LogWriter {
 public:
  explicit LogWriter(LogOptions options);
  ~LogWriter();  // as Close()
  LogWriter(LogWriter&&) noexcept;

  void Append(protocol::Stream stream, std::string_view text) noexcept;
  // Last chance for the line about dropped text.
  void Close() noexcept;

  // Since the last line that said so.
  [[nodiscard]] uint64_t dropped_bytes() const;
  // All that this writer has dropped, whether a line says so or not.
  [[nodiscard]] uint64_t lost_bytes() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tfdist::agent
