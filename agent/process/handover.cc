#include "agent/process/handover.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <charconv>
#include <string_view>

#include "base/error.h"

namespace tfdist::agent {
namespace {

constexpr size_t kOwnArguments = 6;  // of a handover; those of the host settings follow

uint64_t ParseNumber(std::string_view argument) {
  uint64_t number = 0;
  const auto [end, error] =
      std::from_chars(argument.data(), argument.data() + argument.size(), number);
  if (error != std::errc() || end != argument.data() + argument.size()) {
    throw Error(Phase::kUsage, fmt::format("'{}' is not a number", argument));
  }
  return number;
}

}  // namespace

HostSettings HostSettings::Capture() {
  HostSettings settings;
  settings.umask = ::umask(0);
  ::umask(settings.umask);
  rlimit core{};
  if (getrlimit(RLIMIT_CORE, &core) == 0) settings.core_limit = core.rlim_cur;
  return settings;
}

void HostSettings::SetOurs() { HostSettings{.umask = 077, .core_limit = 0}.Restore(); }

void HostSettings::Restore() const {
  ::umask(umask);
  rlimit core{};
  if (getrlimit(RLIMIT_CORE, &core) != 0) return;
  core.rlim_cur = core_limit;
  setrlimit(RLIMIT_CORE, &core);
}

void HostSettings::AppendTo(std::vector<std::string>& arguments) const {
  arguments.push_back(std::to_string(umask));
  arguments.push_back(std::to_string(core_limit));
}

HostSettings HostSettings::Parse(std::span<const std::string> arguments) {
  if (arguments.size() != kArguments) throw Error(Phase::kUsage, "wrong number of host settings");
  return {.umask = static_cast<mode_t>(ParseNumber(arguments[0])),
          .core_limit = ParseNumber(arguments[1])};
}

std::vector<std::string> Handover::ToArguments() const {
  std::vector<std::string> arguments{slot_folder.string(),      has_listener ? "1" : "0",
                                     has_name_lock ? "1" : "0", std::to_string(agent_restarts),
                                     keeper_lost ? "1" : "0",   notes_lost ? "1" : "0"};
  host.AppendTo(arguments);
  return arguments;
}

Handover Handover::Parse(const std::vector<std::string>& arguments) {
  if (arguments.size() < kOwnArguments) {
    throw Error(Phase::kUsage, "this role is started by tfdist's own processes");
  }
  return {.slot_folder = arguments[0],
          .host = HostSettings::Parse(std::span(arguments).subspan(kOwnArguments)),
          .has_listener = ParseNumber(arguments[1]) != 0,
          .has_name_lock = ParseNumber(arguments[2]) != 0,
          .agent_restarts = static_cast<int>(ParseNumber(arguments[3])),
          .keeper_lost = ParseNumber(arguments[4]) != 0,
          .notes_lost = ParseNumber(arguments[5]) != 0};
}

}  // namespace tfdist::agent
