#include "cli/stream/line_printer.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/display_width.h"
#include "base/room_kept_free.h"
#include "base/text.h"
#include "cli/stream/terminal_filter.h"

namespace tfdist::cli {
namespace {

using namespace std::chrono_literals;

constexpr size_t kLongestLineBytes = 64 * 1024;
constexpr auto kUnfinishedPause = 500ms;
constexpr auto kAppendedPause = 1s;  // where no line can be erased
constexpr auto kPushedAwayPause = 5s;
constexpr std::string_view kBar = " | ";             // between task and line
constexpr std::string_view kEraseLine = "\r\x1b[K";  // ECMA-48 8.3.41
// The terminal's own colours, but for red (errors) and black and white (background).
constexpr std::array<int, 10> kColours = {36, 33, 32, 35, 34, 96, 93, 92, 95, 94};

std::string_view NameOfStream(protocol::Stream stream) {
  if (stream == protocol::Stream::kStdout) return "stdout";
  if (stream == protocol::Stream::kStderr) return "stderr";
  return stream == protocol::Stream::kMerged ? "merged" : "";
}

constexpr uint64_t kLookEveryBytes = 1 << 20;

void WriteOut(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = write(fd, bytes.data(), bytes.size());
    if (put >= 0) {
      bytes.remove_prefix(static_cast<size_t>(put));
    } else if (errno == EAGAIN) {  // somebody else made our terminal non-blocking
      pollfd ready{fd, POLLOUT, 0};
      poll(&ready, 1, -1);
    } else if (errno != EINTR) {
      throw OutputClosed(errno);
    }
  }
}

}  // namespace

LinePrinter::LinePrinter(int fd, PrinterOptions options, const std::vector<std::string>& tasks)
    : fd_(fd), options_(options), aim_(fd) {
  size_t width = 0;
  for (const std::string& task : tasks) width = std::max(width, task.size());
  prefix_columns_ = width + kBar.size() + (options.timestamps ? UtcText(0).size() + 1 : 0);
  size_t next = 0;
  for (const std::string& task : tasks) {
    const std::string plain = fmt::format("{:<{}}{}", task, width, kBar);
    prefixes_[task] =
        options.colour ? fmt::format("\x1b[{}m{}\x1b[0m", kColours[next % kColours.size()], plain)
                       : plain;
    ++next;
  }
}

LinePrinter::~LinePrinter() {
  if (open_) (void)!write(fd_, "\n", 1);
}

void LinePrinter::Print(const std::string& task, const protocol::LogPiece& piece) {
  std::string_view rest = piece.data;
  for (const protocol::LogSegment& segment : piece.segments) {
    Add(task, segment, rest.substr(0, segment.size_bytes));
    rest.remove_prefix(std::min<size_t>(segment.size_bytes, rest.size()));
  }
  Flush();
}

void LinePrinter::Add(const std::string& task, const protocol::LogSegment& segment,
                      std::string_view bytes) {
  if (options_.raw) {
    out_ += bytes;
    return;
  }
  const Source source{task, segment.stream};
  Unfinished& line = unfinished_[source];
  while (true) {
    const Origin origin{segment.time_ns, segment.attempt, segment.run};
    const size_t end = bytes.find('\n');
    if (end == std::string_view::npos) {
      Append(source, line, origin, bytes);
      break;
    }
    if (line.text.empty() && open_ != source) {
      PrintLine(source, NewestFrame(bytes.substr(0, end)), origin);
    } else {
      Append(source, line, origin, bytes.substr(0, end));
      PrintRest(source, line);
    }
    line = {};
    bytes.remove_prefix(end + 1);
  }
  while (line.text.size() > kLongestLineBytes) {
    Unfinished first = line;
    first.text.resize(kLongestLineBytes);
    PrintRest(source, first, Part::kGoesOn);
    line.text.erase(0, kLongestLineBytes);
    line.written = 0;
  }
}

void LinePrinter::Append(const Source& source, Unfinished& line, const Origin& origin,
                         std::string_view bytes) {
  if (bytes.empty()) return;
  if (line.text.empty()) line.origin = origin;
  line.changed = true;
  // What stood there holds no carriage return but at its end.
  const bool redraws = line.text.ends_with('\r') || bytes.find('\r') != bytes.npos;
  line.text += bytes;
  if (!redraws) return;
  const size_t end = line.text.find_last_not_of('\r');
  const size_t before = end == std::string::npos ? end : line.text.rfind('\r', end);
  if (before == std::string::npos) return;
  line.text.erase(0, before + 1);
  line.origin = origin;
  line.redrawn = true;
  line.written = 0;
  if (open_ == source && !CanErase()) {
    out_ += '\n';
    open_.reset();
  }
}

void LinePrinter::PutOut(std::string_view line) {
  const Colours colours = options_.colour ? Colours::kKeep : Colours::kDrop;
  if (options_.filter) {
    out_ += SafeForTerminal(line, colours);
  } else {
    out_ += line;
  }
}

void LinePrinter::PrintLine(const Source& source, std::string_view line, const Origin& origin,
                            Part part) {
  if (options_.json) return PrintAsJson(source, line, origin, part);
  BeginLine(source, origin);
  PutOut(line);
  out_ += part == Part::kGoesOn ? "\\\n" : "\n";
}

// What is not written yet.
void LinePrinter::PrintRest(const Source& source, Unfinished& line, Part part) {
  const std::string_view frame = NewestFrame(line.text);
  if (line.redrawn && line.written == frame.size() && !frame.empty()) return;
  if (line.redrawn || line.written == 0) return PrintLine(source, frame, line.origin, part);
  GoOnWith(source, line);
  open_.reset();
  out_ += part == Part::kGoesOn ? "\\\n" : "\n";
}

void LinePrinter::PrintAsJson(const Source& source, std::string_view line, const Origin& origin,
                              Part part) {
  const nlohmann::json value = {
      {"task", source.first},        {"stream", NameOfStream(source.second)},
      {"attempt", origin.attempt},   {"run", origin.run},
      {"time_ns", origin.time_ns},   {"line", line},
      {"cut", part == Part::kGoesOn}};
  out_ += value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace) + '\n';
}

bool LinePrinter::IsApart(const Source& source) const {
  return options_.stderr_fd >= 0 && source.second == protocol::Stream::kStderr;
}

void LinePrinter::AimAt(int fd) {
  if (aim_ != fd) Flush();
  aim_ = fd;
}

void LinePrinter::BeginLine(const Source& source, const Origin& origin) {
  AimAt(IsApart(source) ? options_.stderr_fd : fd_);
  if (open_ == source && CanErase()) {
    out_ += kEraseLine;
    open_.reset();
  }
  if (aim_ == fd_) LeaveOpenLine();
  out_ += prefixes_[source.first];
  if (options_.timestamps) out_ += UtcText(origin.time_ns) + " ";
}

// Behind what stands of the line, or on a new line.
void LinePrinter::GoOnWith(const Source& source, Unfinished& line) {
  if (open_ != source) BeginLine(source, line.origin);
  open_ = source;
  const std::string_view text = NewestFrame(line.text);
  PutOut(text.substr(std::min(line.written, text.size())));
  line.written = text.size();
}

// Where no line can be erased.
void LinePrinter::ShowBelow(const Source& source, Unfinished& line) {
  if (!line.redrawn && !IsApart(source)) return GoOnWith(source, line);
  if (!line.redrawn) return;
  const std::string_view frame = NewestFrame(line.text);
  PrintLine(source, frame, line.origin);
  line.written = frame.size();
}

void LinePrinter::LeaveOpenLine() {
  if (!open_) return;
  Unfinished& line = unfinished_[*open_];
  out_ += CanErase() ? "\n" : "\\\n";
  line.pushed_away = true;
  open_.reset();
}

std::optional<TimePoint> LinePrinter::ShowUnfinished(TimePoint now) {
  std::optional<TimePoint> next;
  if (options_.raw || options_.json) return next;
  for (auto& [source, line] : unfinished_) {
    if (!line.changed || NewestFrame(line.text).empty() || (CanErase() && IsApart(source)))
      continue;
    const auto pause = line.pushed_away ? kPushedAwayPause : kUnfinishedPause;
    if (!line.show_at) line.show_at = now + (CanErase() ? pause : kAppendedPause);
    if (*line.show_at <= now) {
      ShowStart(source, line);
    } else {
      next = std::min(next.value_or(*line.show_at), *line.show_at);
    }
  }
  Flush();
  return next;
}

void LinePrinter::ShowStart(const Source& source, Unfinished& line) {
  CanErase() ? ShowOnOneRow(source, line) : ShowBelow(source, line);
  line.changed = false;
  line.pushed_away = false;
  line.show_at.reset();
}

// Of the terminal, so that it can be erased.
void LinePrinter::ShowOnOneRow(const Source& source, Unfinished& line) {
  BeginLine(source, line.origin);
  const std::string plain = SafeForTerminal(line.text, Colours::kDrop);
  // The user may have made the window narrower since the last frame.
  winsize size{};
  if (ioctl(fd_, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) options_.columns = size.ws_col;
  // The last column stays free: a cursor that wraps stands on the next row.
  const size_t used = prefix_columns_ + 1;
  const size_t room = options_.columns > used ? options_.columns - used : 0;
  const bool fits = DisplayWidth(plain) <= room && plain.find('\t') == std::string::npos;
  std::string cut(FirstColumns(plain, room));
  std::ranges::replace(cut, '\t', ' ');
  if (fits) {
    PutOut(line.text);
  } else {
    out_ += cut;
  }
  open_ = source;
}

void LinePrinter::Finish(const std::string& task) {
  for (auto& [source, line] : unfinished_) {
    if (source.first != task || line.text.empty()) continue;
    PrintRest(source, line);
    line = {};
  }
  Flush();
}

void LinePrinter::WriteNote(std::string text) {
  AimAt(fd_);
  LeaveOpenLine();
  Flush();
  WriteOut(STDERR_FILENO, text += '\n');
}

void LinePrinter::Flush() {
  unchecked_bytes_ += out_.size();
  if (options_.leaves_room && unchecked_bytes_ >= kLookEveryBytes) {
    unchecked_bytes_ = 0;
    struct statvfs disk {};
    const bool is_known = fstatvfs(fd_, &disk) == 0;
    if (is_known && disk.f_bavail * disk.f_frsize < BytesToKeepFree(disk)) {
      throw OutputClosed(ENOSPC);
    }
  }
  WriteOut(aim_, std::exchange(out_, {}));
}

}  // namespace tfdist::cli
