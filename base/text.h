// Small things that are done with text.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace tfdist {

// Every `from` in `text` becomes `to`; what `to` holds is not looked at again.
void ReplaceAll(std::string& text, std::string_view from, std::string_view to);

// Takes the beginning of `text` up to `separator`, and the separator too; all of it when there is
// none.
std::string_view TakeUpTo(char separator, std::string_view& text);

// Of ASCII letters alone, whatever the locale: host names, keywords.
std::string LowerCase(std::string_view text);

// As a POSIX shell's word: sh(1) reads exactly `text` back: 'it'\''s'.
std::string ShellQuoted(std::string_view text);

// A moment of the wall clock in UTC: "2026-08-01T12:00:00.000Z", RFC 3339.
std::string UtcText(int64_t time_ns);

// In whole units, as a cluster file would have it: "500ms", "30s", "2h".
std::string DurationText(std::chrono::milliseconds duration);

// Takes the next word from the front of `line`: up to a space, a tab or \r. Empty at the end of the line.
std::string_view TakeWord(std::string_view& line);

// What a line of a program's output, without its newline, shows in the end. Carriage returns redraw a line from its beginning, as
// progress bars do: only the newest frame counts, without the carriage returns that end it. A line of CRLF is such a line, too.
std::string_view NewestFrame(std::string_view line);

}  // namespace tfdist
