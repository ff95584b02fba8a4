#include "agent/check/quick_look.h"

#include <fmt/format.h>
#include <sys/statvfs.h>

#include <optional>
#include <utility>

#include "agent/check/host_settings.h"
#include "agent/check/programs.h"
#include "base/process_limits.h"

namespace tfdist::agent {
namespace {

// As `check` has it (cli/check/findings.cc).
constexpr uint64_t kLittleDiskBytes = uint64_t{1} << 30;

std::optional<protocol::Trouble> FindDiskTrouble(const std::filesystem::path& base) {
  struct statvfs info {};
  if (statvfs(base.c_str(), &info) != 0) return std::nullopt;  // what follows fails with its reason
  const uint64_t free_bytes = uint64_t{info.f_bavail} * info.f_frsize;
  if (free_bytes >= kLittleDiskBytes) return std::nullopt;
  return protocol::Trouble{fmt::format("{} MiB are free at {}", free_bytes >> 20, base.string()),
                           std::string(kRoomRemedy)};
}

}  // namespace

std::vector<protocol::Trouble> QuickLook(const std::filesystem::path& base, TimePoint deadline) {
  std::vector<protocol::Trouble> troubles;
  if (auto disk = FindDiskTrouble(base)) troubles.push_back(*std::move(disk));
  if (auto logout = FindLogoutTrouble(deadline)) troubles.push_back(*std::move(logout));
  for (auto& [why, remedy] : LowLimitsOfTasks())
    troubles.push_back({std::move(why), std::move(remedy)});
  for (auto& setting : FindForeignSettings()) troubles.push_back(std::move(setting));
  return troubles;
}

}  // namespace tfdist::agent
