#include "runtime/shm/host_id.h"

#include <sys/stat.h>

#include "base/error.h"
#include "base/file.h"

namespace tfdist::runtime::shm {
namespace {

std::optional<std::string> BootId() {
  constexpr size_t kUuidLength = 36;
  try {
    const auto text = ReadFileIfExists("/proc/sys/kernel/random/boot_id", 256);
    if (text && text->size() >= kUuidLength) return text->substr(0, kUuidLength);
  } catch (const Error&) {
    // A sandbox that hides it: no shared memory there.
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> ThisHost() {
  struct stat network {};
  const std::optional<std::string> boot_id = BootId();
  if (!boot_id || stat("/proc/self/ns/net", &network) != 0) return std::nullopt;
  return *boot_id + "/" + std::to_string(network.st_ino);
}

}  // namespace tfdist::runtime::shm
