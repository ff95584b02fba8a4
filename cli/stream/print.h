// Prints everything but the output of tasks (LinePrinter). Names, errors and reasons come from
// hosts, so all printing goes through this file; tests/smoke/test_terminal.py looks for other ways.
//
// Formats are ours; values are texts or numbers. Texts are made harmless: they stay on their line
// and cannot control a terminal. This is done for pipes, too, as a pipe may lead to a terminal.
#pragma once

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <concepts>
#include <ctime>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/error.h"

namespace tfdist::cli {

// `text` on one line: line breaks as " / ", every control character visible ("^[", "\x9b"), also
// those that change the order of the text; bytes that are not UTF-8 become U+FFFD.
std::string Harmless(std::string_view text);

// What may be put into a format.
template <typename T>
concept Printable = std::convertible_to<const T&, std::string_view> ||
    std::is_arithmetic_v<std::remove_cvref_t<T>> || std::same_as<std::remove_cvref_t<T>, std::tm>;

template <typename T>
decltype(auto) MadeHarmless(const T& value) {
  if constexpr (std::convertible_to<const T&, std::string_view>) {
    return Harmless(value);
  } else {
    return T(value);
  }
}

template <Printable... T>
std::string FormatHarmless(fmt::format_string<T...> format, T&&... values) {
  // A function of its own, as the arguments must live until all is formatted.
  return [&](auto... harmless) {
    return fmt::vformat(fmt::string_view(format), fmt::make_format_args(harmless...));
  }(MadeHarmless(values)...);
}

// Thrown when no more output can be written.
class OutputClosed : public Error {
 public:
  explicit OutputClosed(int error_number);
  // The same of a command that has done something, which its output should have told.
  OutputClosed(const OutputClosed& error, const std::string& done);
  // The reader has closed the pipe, as `tfdist logs | head` does. Otherwise the disk is full, say.
  [[nodiscard]] bool reader_left() const { return reader_left_; }
  [[nodiscard]] bool has_done() const { return has_done_; }

 private:
  bool reader_left_;
  bool has_done_ = false;
};

// To stdout, which is buffered. Throws OutputClosed.
void PrintRaw(std::string_view text);
template <Printable... T>
void Print(fmt::format_string<T...> format, T&&... values) {
  PrintRaw(FormatHarmless<T...>(format, std::forward<T>(values)...));
}
// What was printed has been written. Throws OutputClosed.
void FlushOutput();
// Of a command that has done something: has `print` print that, and has it written. OutputClosed then tells `done`.
void PrintDone(const std::string& done, const std::function<void()>& print);
// Several lines that tfdist has put together from the user's own file, or JSON with all but ASCII
// escaped. Exact, unless stdout is a terminal.
void PrintLines(std::string_view text);

// On a terminal: the cursor goes up by `lines`, and what stands from there on is cleared.
void ClearLinesAbove(size_t lines);

// To stderr. What cannot be written there is dropped: nobody could be told.
void SayRaw(std::string_view text);
void SayLines(std::string_view text);  // as PrintLines
template <Printable... T>
void Say(fmt::format_string<T...> format, T&&... values) {
  SayRaw(FormatHarmless<T...>(format, std::forward<T>(values)...));
}

}  // namespace tfdist::cli
