#include "agent/census/left_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <sstream>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"

namespace tfdist::agent {
namespace {

constexpr size_t kLimitBytes = 1024 * 1024;

std::string ReadIfPossible(const std::filesystem::path& file) {
  try {
    return ReadFileIfExists(file, kLimitBytes).value_or("");
  } catch (const Error& e) {
    Log("{}, ignoring", e.what());
    return "";
  }
}

}  // namespace

std::vector<ProcessInfo> ReadLeft(const std::filesystem::path& file) {
  std::istringstream text(ReadIfPossible(file));
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
  try {
    ReplaceFile(file, text, 0600);
  } catch (const Error& e) {
    Log("{}, ignoring", e.what());
  }
}

}  // namespace tfdist::agent
