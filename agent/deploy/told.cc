#include "agent/deploy/told.h"

#include <fmt/format.h>

#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "agent/control/curve_keys.h"
#include "agent/control/tcp_address.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"

namespace tfdist::agent {
namespace {

using protocol::Json;

constexpr size_t kMaxConfigBytes = 1024 * 1024;

// `decode` of the file's content; nullopt when there is no such file, or when it is damaged.
template <typename Decode>
auto ReadUsable(const std::filesystem::path& path, size_t limit_bytes, Decode decode,
                std::string& damage) -> std::optional<decltype(decode(std::string()))> {
  const auto content = ReadOwnFileIfExists(path, limit_bytes);
  if (!content) return std::nullopt;
  std::string why;
  try {
    return decode(*content);
  } catch (const Error& e) {
    why = e.cause();
  } catch (const Json::exception& e) {
    why = e.what();
  }
  const std::string what = fmt::format("{} is damaged: {}", path.string(), why);
  Log("{}; going on without it", what);
  damage += (damage.empty() ? "" : "; ") + what;
  return std::nullopt;
}

protocol::HostDescription DecodeDescription(const std::string& bytes) {
  return protocol::Body<protocol::HostDescription>(protocol::Decode(bytes));
}

std::vector<std::string> DecodePeers(const std::string& text) {
  auto keys = Json::parse(text).get<std::vector<std::string>>();
  for (const std::string& key : keys) DecodeCurveKey(key);
  return keys;
}

CoordinatorAddress DecodeCoordinator(const std::string& text) {
  auto coordinator = Json::parse(text).get<CoordinatorAddress>();
  ParseTcpAddress(coordinator.address, coordinator.port);
  DecodeCurveKey(coordinator.key);
  return coordinator;
}

// "worker-2" -> "worker:2", as TaskFolderName has made it: an index holds no dash.
std::string TaskOfFolder(std::string name) {
  const size_t dash = name.rfind('-');
  if (dash != std::string::npos) name[dash] = ':';
  return name;
}

protocol::HostDescription TasksThatRan(const SlotFolder& folder) {
  protocol::HostDescription description;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder.tasks(), error), end;
       !error && entry != end; entry.increment(error)) {
    protocol::TaskDescription task;
    task.task = TaskOfFolder(entry->path().filename().string());
    if (IsTaskName(task.task)) description.tasks.push_back(std::move(task));
  }
  return description;
}

}  // namespace

Told ReadTold(const SlotFolder& folder) {
  Told told;
  auto description =
      ReadUsable(folder.description(), protocol::kMaxMessageBytes, DecodeDescription, told.damage);
  if (description) {
    told.description = std::move(*description);
  } else if (!told.damage.empty()) {
    told.description = TasksThatRan(folder);
  }
  told.peers = ReadUsable(folder.peers(), kMaxConfigBytes, DecodePeers, told.damage)
                   .value_or(std::vector<std::string>());
  told.coordinator =
      ReadUsable(folder.coordinator(), kMaxConfigBytes, DecodeCoordinator, told.damage);
  return told;
}

}  // namespace tfdist::agent
