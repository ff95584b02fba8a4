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
#include "base/text.h"
#include "cli/stream/terminal_filter.h"

namespace tfdist::cli {
namespace {

using namespace std::chrono_literals;

constexpr size_t kLongestLineBytes = 64 * 1024;
constexpr auto kUnfinishedPause = 500ms;
constexpr auto kPushedAwayPause = 5s;
constexpr std::string_view kBar = " | ";             // between task and line
constexpr std::string_view kEraseLine = "\r\x1b[K";  // ECMA-48 8.3.41
// The terminal's own colours, but for red (errors) and black and white (background).
constexpr std::array<int, 10> kColours = {36, 33, 32, 35, 34, 96, 93, 92, 95, 94};

// Leaves the last state of a line that rewrites itself.
void ForgetRewritten(std::string& line) {
  const size_t end = line.find_last_not_of('\r');
  const size_t rewritten = end == std::string::npos ? end : line.rfind('\r', end);
  if (rewritten != std::string::npos) line.erase(0, rewritten + 1);
}

std::string_view NameOfStream(protocol::Stream stream) {
  if (stream == protocol::Stream::kStdout) return "stdout";
  if (stream == protocol::Stream::kStderr) return "stderr";
  return stream == protocol::Stream::kMerged ? "merged" : "";
}

constexpr uint64_t kKeptFreeBytes = 64 << 20;
constexpr uint64_t kLookEveryBytes = 4 << 20;

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
    if (line.text.empty()) line.origin = {segment.time_ns, segment.attempt, segment.run};
    const size_t end = bytes.find('\n');
    const bool is_whole = line.text.empty() && end != std::string_view::npos;
    if (!is_whole) line.text += bytes.substr(0, end);
    if (end == std::string_view::npos) break;
    PrintLine(source, is_whole ? bytes.substr(0, end) : line.text, line.origin);
    line = {};
    bytes.remove_prefix(end + 1);
  }
  line.changed = line.changed || !bytes.empty();
  if (options_.filter) ForgetRewritten(line.text);
  while (line.text.size() > kLongestLineBytes) {
    PrintLine(source, line.text.substr(0, kLongestLineBytes), line.origin, Part::kGoesOn);
    line.text.erase(0, kLongestLineBytes);
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
  if (open_ == source) {
    out_ += kEraseLine;
    open_.reset();
  }
  if (aim_ == fd_) LeaveOpenLine();
  out_ += prefixes_[source.first];
  if (options_.timestamps) out_ += UtcText(origin.time_ns) + " ";
}

void LinePrinter::LeaveOpenLine() {
  if (!open_) return;
  out_ += '\n';
  unfinished_[*open_].pushed_away = true;
  open_.reset();
}

std::optional<TimePoint> LinePrinter::ShowUnfinished(TimePoint now) {
  std::optional<TimePoint> next;
  if (options_.columns == 0) return next;
  for (auto& [source, line] : unfinished_) {
    if (!line.changed || line.text.empty() || IsApart(source)) continue;
    if (!line.show_at)
      line.show_at = now + (line.pushed_away ? kPushedAwayPause : kUnfinishedPause);
    if (*line.show_at <= now) {
      ShowStart(source, line);
    } else {
      next = std::min(next.value_or(*line.show_at), *line.show_at);
    }
  }
  Flush();
  return next;
}

// On one row of the terminal, so that it can be erased.
void LinePrinter::ShowStart(const Source& source, Unfinished& line) {
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
  line.changed = false;
  line.pushed_away = false;
  line.show_at.reset();
}

void LinePrinter::Finish(const std::string& task) {
  for (auto& [source, line] : unfinished_) {
    if (source.first != task || line.text.empty()) continue;
    PrintLine(source, line.text, line.origin);
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
    if (is_known && disk.f_bavail * disk.f_frsize < kKeptFreeBytes) throw OutputClosed(ENOSPC);
  }
  WriteOut(aim_, std::exchange(out_, {}));
}

}  // namespace tfdist::cli
