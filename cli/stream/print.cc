#include "cli/stream/print.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "base/text.h"
#include "cli/stream/terminal_filter.h"

namespace tfdist::cli {
namespace {

std::string HarmlessLines(std::string_view text) {
  std::string lines;
  while (!text.empty()) {
    const size_t length = std::min(text.find('\n'), text.size());
    lines += WithoutControls(text.substr(0, length)) + "\n";
    text.remove_prefix(std::min(length + 1, text.size()));
  }
  return lines;
}

}  // namespace

OutputClosed::OutputClosed(int error_number)
    : Error(Phase::kLogs, WithErrno("cannot write output", error_number)),
      reader_left_(error_number == EPIPE || error_number == EIO) {}  // EIO: the terminal is gone

OutputClosed::OutputClosed(const OutputClosed& error, const std::string& done)
    : Error(error.phase(), error.cause() + "; " + done),
      reader_left_(error.reader_left()),
      has_done_(true) {}

std::string Harmless(std::string_view text) {
  std::string line;
  bool broken = false;
  while (!text.empty()) {
    const size_t length = std::min(text.find_first_of("\r\n"), text.size());
    if (length > 0) {
      if (broken && !line.empty()) line += " / ";
      line += WithoutControls(text.substr(0, length));
    }
    broken = length < text.size();
    text.remove_prefix(std::min(length + 1, text.size()));
  }
  return line;
}

void PrintRaw(std::string_view text) {
  if (fwrite(text.data(), 1, text.size(), stdout) != text.size()) throw OutputClosed(errno);
}

void FlushOutput() {
  if (fflush(stdout) != 0) throw OutputClosed(errno);
}

void PrintDone(const std::string& done, const std::function<void()>& print) {
  try {
    print();
    FlushOutput();
  } catch (const OutputClosed& error) {
    throw OutputClosed(error, done);
  }
}

void PrintLines(std::string_view text) {
  PrintRaw(isatty(STDOUT_FILENO) != 0 ? HarmlessLines(text) : std::string(text));
}

void ClearLinesAbove(size_t lines) {
  PrintRaw(fmt::format("\x1b[{}F\x1b[J", lines));  // ECMA-48: CPL, ED
}

void SayRaw(std::string_view text) { (void)!fwrite(text.data(), 1, text.size(), stderr); }

void SayLines(std::string_view text) {
  SayRaw(isatty(STDERR_FILENO) != 0 ? HarmlessLines(text) : std::string(text));
}

}  // namespace tfdist::cli
