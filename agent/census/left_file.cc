#include "agent/census/left_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <string>
#include <system_error>

#include "base/file.h"
#include "base/text.h"

namespace tfdist::agent {
namespace {

constexpr size_t kLimitBytes = 1024 * 1024;

template <typename Number>
bool ParseWhole(std::string_view text, Number& number) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end;
}

}  // namespace

std::vector<ProcessId> ParseLeft(const std::string& text, std::string_view boot_id) {
  std::string_view rest = text;
  std::vector<ProcessId> ids;
  if (TakeUpTo('\n', rest) != boot_id) return ids;
  ProcessId id;
  while (!rest.empty()) {
    std::string_view line = TakeUpTo('\n', rest);
    if (!ParseWhole(TakeUpTo(' ', line), id.pid) || !ParseWhole(line, id.start_time)) break;
    ids.push_back(id);
  }
  return ids;
}

std::vector<ProcessInfo> ReadLeft(const std::filesystem::path& file) {
  std::vector<ProcessInfo> processes;
  for (const ProcessId& id :
       ParseLeft(ReadOwnFileIfExists(file, kLimitBytes).value_or(""), BootId())) {
    const auto process = ReadProcess(id.pid);
    if (process && process->id == id && !process->ended()) processes.push_back(*process);
  }
  return processes;
}

void WriteLeft(const std::filesystem::path& file, const std::vector<ProcessInfo>& processes) {
  if (processes.empty()) {
    unlink(file.c_str());
    return;
  }
  std::string text = BootId() + "\n";
  for (const ProcessInfo& process : processes) {
    text += fmt::format("{} {}\n", process.id.pid, process.id.start_time);
  }
  ReplaceFile(file, text, 0600);
}

}  // namespace tfdist::agent
