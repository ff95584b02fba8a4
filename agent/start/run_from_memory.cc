#include "agent/start/run_from_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#include <cerrno>

#include "agent/process/spawn.h"
#include "base/unique_fd.h"

namespace tfdist::agent {
namespace {

constexpr unsigned kExecutable = 0x10;  // MFD_EXEC of Linux 6.3

UniqueFd MakeProgram() {
  UniqueFd program(memfd_create("tfdist-agent", MFD_CLOEXEC | kExecutable));
  if (!program.valid() && errno == EINVAL) {
    program = UniqueFd(memfd_create("tfdist-agent", MFD_CLOEXEC));
  }
  return program;
}

bool CopyThisProgram(const UniqueFd& to) {
  const UniqueFd from(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  struct stat info {};
  if (!from.valid() || fstat(from.get(), &info) != 0) return false;
  for (off_t offset = 0; offset < info.st_size;) {
    const auto left = static_cast<size_t>(info.st_size - offset);
    if (sendfile(to.get(), from.get(), &offset, left) <= 0) return false;
  }
  return true;
}

}  // namespace

void RunFromMemory(const char* role, const std::vector<std::string>& arguments) {
  const UniqueFd program = MakeProgram();
  if (!program.valid() || !CopyThisProgram(program)) return;
  ExecRole(fmt::format("/proc/self/fd/{}", program.get()).c_str(), role, arguments);
}

}  // namespace tfdist::agent
