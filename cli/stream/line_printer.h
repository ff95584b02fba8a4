// Puts the output of many tasks on one stream: whole lines, each with its task in front. Of a line
// that redraws itself (NewestFrame) only the newest frame is kept. A line that stays unfinished
// (a progress bar, a prompt) is shown as well. On a terminal it is written again in its place as it
// grows. In a pipe or a file the line goes on, and a new frame of it is a new line.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "cli/stream/print.h"
#include "wire/protocol.h"

namespace tfdist::cli {

struct PrinterOptions {
  bool colour = false;       // prefixes in colour, and the colours of tasks stay
  bool filter = false;       // SafeForTerminal on every line
  bool raw = false;          // no prefixes, no lines: the bytes as they are
  bool json = false;         // an object a line (docs/json.md), instead of all that
  bool timestamps = false;   // when each line began, after its task
  size_t columns = 0;        // of a terminal; 0: no line can be erased
  bool leaves_room = false;  // of a file's disk at least BytesToKeepFree: OutputClosed else
  int stderr_fd = -1;        // where lines of a task's stderr go, if it is apart; -1: where all go
};

// Single-threaded. Memory: at most 64 KiB for each stream of each task; a longer line is printed in
// parts, each but the last ending in a backslash.
class LinePrinter {
 public:
  // Writes to `fd` (borrowed, as stderr_fd). `tasks`: all names that will come, for the width of the prefix.
  LinePrinter(int fd, PrinterOptions options, const std::vector<std::string>& tasks);
  LinePrinter(const LinePrinter&) = delete;
  LinePrinter& operator=(const LinePrinter&) = delete;
  ~LinePrinter();  // ends the line that the cursor stands in

  void Print(const std::string& task, const protocol::LogPiece& piece);
  // A part of a piece; Flush() after the last one writes them.
  void Add(const std::string& task, const protocol::LogSegment& segment, std::string_view text);
  void Flush();
  // The task's last lines, those without a newline.
  void Finish(const std::string& task);
  // Shows lines that have been unfinished for half a second since the call that first saw them, a
  // second where no line can be erased. On a terminal it is cut to the width, and one that another
  // line has pushed away is shown again 5 s later. As JSON a line is one object, once it has ended.
  // Returns when to call again, nullopt: not before more is printed.
  std::optional<TimePoint> ShowUnfinished(TimePoint now);
  // A line of tfdist's own, on stderr: stdout holds what tasks print, and nothing else.
  template <Printable... T>
  void Note(fmt::format_string<T...> format, T&&... values) {
    WriteNote(FormatHarmless<T...>(format, std::forward<T>(values)...));
  }

 private:
  using Source = std::pair<std::string, protocol::Stream>;
  // Of a line's first bytes.
  struct Origin {
    int64_t time_ns = 0;  // wall clock: when the agent's host wrote them
    int attempt = 0;      // 0: not known, as the run
    int run = 0;
  };
  struct Unfinished {
    std::string text;
    Origin origin;
    size_t written = 0;        // of the text, where no line can be erased
    bool redrawn = false;      // at least once
    bool changed = false;      // since it was shown
    bool pushed_away = false;  // was shown, and stands above other lines
    std::optional<TimePoint> show_at;
  };

  void WriteNote(std::string text);
  enum class Part { kWhole, kGoesOn };
  void Append(const Source& source, Unfinished& line, const Origin& origin, std::string_view bytes);
  void PrintLine(const Source& source, std::string_view line, const Origin& origin,
                 Part part = Part::kWhole);
  void PrintRest(const Source& source, Unfinished& line, Part part = Part::kWhole);
  void PrintAsJson(const Source& source, std::string_view line, const Origin& origin, Part part);
  [[nodiscard]] bool IsApart(const Source& source) const;
  void AimAt(int fd);
  [[nodiscard]] bool CanErase() const { return options_.columns > 0; }
  void BeginLine(const Source& source, const Origin& origin);
  void GoOnWith(const Source& source, Unfinished& line);
  void LeaveOpenLine();
  void ShowStart(const Source& source, Unfinished& line);
  void ShowBelow(const Source& source, Unfinished& line);
  void ShowOnOneRow(const Source& source, Unfinished& line);
  void PutOut(std::string_view line);

  int fd_;
  PrinterOptions options_;
  std::map<std::string, std::string> prefixes_;
  size_t prefix_columns_ = 0;
  std::map<Source, Unfinished> unfinished_;
  std::optional<Source> open_;    // whose unfinished line the cursor stands in
  std::string out_;               // of the piece at hand; written at its end
  int aim_;                       // to which descriptor
  uint64_t unchecked_bytes_ = 0;  // written since there was a look at the disk
};

}  // namespace tfdist::cli
