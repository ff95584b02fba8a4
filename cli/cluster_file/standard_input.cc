#include "cli/cluster_file/standard_input.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>

#include "base/failures.h"

namespace tfdist::cli {

bool IsReadOnce(const std::filesystem::path& file) {
  const std::string path = file.lexically_normal().string();
  const bool is_of_a_process = path.starts_with("/proc/") && path.find("/fd/") != path.npos;
  return file == kStandardInput || path == "/dev/stdin" || path.starts_with("/dev/fd/") ||
         is_of_a_process;
}

std::string ReadStandardInput(size_t most_bytes) {
  std::string content;
  char buffer[16384];
  while (content.size() <= most_bytes) {
    const ssize_t got = read(STDIN_FILENO, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw UsageError(Phase::kConfig, WithErrno("cannot read", errno));
    if (got == 0) return content;
    content.append(buffer, static_cast<size_t>(got));
  }
  throw UsageError(Phase::kConfig, fmt::format("longer than {} bytes", most_bytes));
}

}  // namespace tfdist::cli
