#include "agent/slot/this_machine.h"

#include <sys/utsname.h>

#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"

namespace tfdist::agent {
namespace {

constexpr size_t kMostBytes = 256;

// Its first line; empty where it cannot be read.
std::string LineOf(const char* path) {
  try {
    const std::string text = ReadFileIfExists(path, kMostBytes).value_or("");
    std::string_view rest = text;
    return std::string(TakeUpTo('\n', rest));
  } catch (const Error&) {
    return "";
  }
}

}  // namespace

Machine ThisMachine() {
  Machine machine;
  utsname names{};
  const std::string id = LineOf("/etc/machine-id");
  if (!id.empty() && uname(&names) == 0) machine.id = std::string(names.nodename) + ' ' + id;
  machine.boot = LineOf("/proc/sys/kernel/random/boot_id");
  return machine;
}

}  // namespace tfdist::agent
