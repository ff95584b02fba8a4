#include "cli/stream/line_printer.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "cli/stream/terminal_filter.h"

namespace tfdist::cli {
namespace {

constexpr size_t kLongestLineBytes = 64 * 1024;
// The terminal's own colours, but for red (errors) and black and white (background).
constexpr std::array<int, 10> kColours = {36, 33, 32, 35, 34, 96, 93, 92, 95, 94};

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

OutputClosed::OutputClosed(int error_number)
    : Error(Phase::kLogs, WithErrno("cannot write output", error_number)),
      reader_left_(error_number == EPIPE || error_number == EIO) {}  // EIO: the terminal is gone

LinePrinter::LinePrinter(int fd, PrinterOptions options, const std::vector<std::string>& tasks)
    : fd_(fd), options_(options) {
  size_t width = 0;
  for (const std::string& task : tasks) width = std::max(width, task.size());
  size_t next = 0;
  for (const std::string& task : tasks) {
    const std::string plain = fmt::format("{:<{}} | ", task, width);
    prefixes_[task] =
        options.colour ? fmt::format("\x1b[{}m{}\x1b[0m", kColours[next % kColours.size()], plain)
                       : plain;
    ++next;
  }
}

void LinePrinter::Print(const std::string& task, const protocol::LogPiece& piece) {
  if (options_.raw) return WriteOut(fd_, piece.data.value);
  std::string_view rest = piece.data.value;
  for (const protocol::LogSegment& segment : piece.segments) {
    Add(task, segment.stream, rest.substr(0, segment.size_bytes));
    rest.remove_prefix(std::min<size_t>(segment.size_bytes, rest.size()));
  }
  Flush();
}

void LinePrinter::Add(const std::string& task, protocol::Stream stream, std::string_view bytes) {
  std::string& unfinished = unfinished_[{task, stream}];
  while (true) {
    const size_t end = bytes.find('\n');
    unfinished += bytes.substr(0, end);
    if (end != std::string_view::npos) {
      PrintLine(task, unfinished);
      unfinished.clear();
      bytes.remove_prefix(end + 1);
      continue;
    }
    while (unfinished.size() > kLongestLineBytes) {
      std::string part = unfinished.substr(0, kLongestLineBytes);
      PrintLine(task, part += '\\');
      unfinished.erase(0, kLongestLineBytes);
    }
    return;
  }
}

void LinePrinter::PrintLine(const std::string& task, std::string_view line) {
  out_ += prefixes_[task];
  const Colours colours = options_.colour ? Colours::kKeep : Colours::kDrop;
  out_ += options_.filter ? SafeForTerminal(line, colours) : std::string(line);
  out_ += '\n';
}

void LinePrinter::Finish(const std::string& task) {
  for (auto& [source, unfinished] : unfinished_) {
    if (source.first != task || unfinished.empty()) continue;
    PrintLine(task, unfinished);
    unfinished.clear();
  }
  Flush();
}

void LinePrinter::WriteNote(std::string text) { WriteOut(STDERR_FILENO, text += '\n'); }

void LinePrinter::Flush() { WriteOut(fd_, std::exchange(out_, {})); }

}  // namespace tfdist::cli
