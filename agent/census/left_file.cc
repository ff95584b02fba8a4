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

std::vector<ProcessInfo> ReadLeft(const std::filesystem::path& file) {
  std::istringstream text(ReadFileIfExists(file, kLimitBytes).value_or(""));
  std::string boot;
  if (!(text >> boot) || boot != BootId()) return {};
  std::vector<ProcessInfo> processes;
  ProcessId id;
  while (text >> id.pid >> id.start_time) {
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
