#include "agent/census/left_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <sstream>
#include <string>

#include "base/file.h"

namespace tfdist::agent {
namespace {

constexpr size_t kLimitBytes = 1024 * 1024;

}  // namespace

std::vector<ProcessId> ParseLeft(const std::string& text, std::string_view boot_id) {
  std::istringstream words(text);
  std::string boot;
  if (!(words >> boot) || boot != boot_id) return {};
  std::vector<ProcessId> ids;
  ProcessId id;
  while (words >> id.pid >> id.start_time) ids.push_back(id);
  return ids;
}

std::vector<ProcessInfo> ReadLeft(const std::filesystem::path& file) {
  std::vector<ProcessInfo> processes;
  for (const ProcessId& id :
       ParseLeft(ReadFileIfExists(file, kLimitBytes).value_or(""), BootId())) {
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
