// Puts the output of many tasks on one stream: whole lines only, each with its task in front.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/protocol.h"
#include "base/error.h"
#include "cli/stream/print.h"

namespace tfdist::cli {

struct PrinterOptions {
  bool colour = false;  // prefixes in colour, and the colours of tasks stay
  bool filter = false;  // SafeForTerminal on every line
  bool raw = false;     // no prefixes, no lines: the bytes as they are
};

// Thrown when no more output can be written.
class OutputClosed : public Error {
 public:
  explicit OutputClosed(int error_number);
  // Nobody reads any more, as is a reader's right (`tfdist logs | head`); else the disk is full,
  // say.
  [[nodiscard]] bool reader_left() const { return reader_left_; }

 private:
  bool reader_left_;
};

// Single-threaded. Memory: at most 64 KiB for each stream of each task; a longer line is printed in
// parts, each but the last ending in a backslash.
class LinePrinter {
 public:
  // Writes to `fd` (borrowed). `tasks`: all names that will come, for the width of the prefix.
  LinePrinter(int fd, PrinterOptions options, const std::vector<std::string>& tasks);

  void Print(const std::string& task, const protocol::LogPiece& piece);
  // The task's last lines, those without a newline.
  void Finish(const std::string& task);
  // A line of tfdist's own, on stderr: stdout holds what tasks print, and nothing else.
  template <Printable... T>
  void Note(fmt::format_string<T...> format, T&&... values) {
    WriteNote(FormatHarmless<T...>(format, std::forward<T>(values)...));
  }

 private:
  using Source = std::pair<std::string, protocol::Stream>;

  void Add(const std::string& task, protocol::Stream stream, std::string_view bytes);
  static void WriteNote(std::string text);
  void PrintLine(const std::string& task, std::string_view line);
  void Flush();

  int fd_;
  PrinterOptions options_;
  std::map<std::string, std::string> prefixes_;
  std::map<Source, std::string> unfinished_;
  std::string out_;  // of the piece at hand; written at its end
};

}  // namespace tfdist::cli
