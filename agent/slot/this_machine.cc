#include "agent/slot/this_machine.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/utsname.h>

#include <ctime>
#include <filesystem>
#include <set>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"

namespace tfdist::agent {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostBytes = 256;
constexpr const char* kBootId = "/proc/sys/kernel/random/boot_id";

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

// Not of bridges and tunnels, which come and go.
std::string AddressesOfCards() {
  std::set<std::string> addresses;
  std::error_code error;
  // Not a range's for: its ++ throws.
  for (fs::directory_iterator card("/sys/class/net", error);
       !error && card != fs::directory_iterator(); card.increment(error)) {
    std::error_code none;
    if (!fs::exists(card->path() / "device", none)) continue;
    addresses.insert(LineOf((card->path() / "address").c_str()));
  }
  return fmt::format("{}", fmt::join(addresses, " "));
}

}  // namespace

Machine ThisMachine() {
  Machine machine;
  utsname names{};
  const std::string id = LineOf("/etc/machine-id");
  if (!id.empty() && uname(&names) == 0) machine.id = std::string(names.nodename) + ' ' + id;
  machine.cards = AddressesOfCards();
  machine.boot = LineOf(kBootId);
  return machine;
}

std::string MachineOfPorts() {
  std::error_code error;
  const auto network = fs::read_symlink("/proc/self/ns/net", error);
  const std::string boot = LineOf(kBootId);
  return error || boot.empty() ? "" : boot + ' ' + network.string();
}

std::chrono::seconds Uptime() {
  timespec time{};
  clock_gettime(CLOCK_BOOTTIME, &time);  // with what it has slept
  return std::chrono::seconds(time.tv_sec);
}

}  // namespace tfdist::agent
