// Deadlines of single steps inside a deadline of the whole.
#pragma once

#include <algorithm>
#include <chrono>
#include <string_view>

#include "base/clock.h"

namespace tfdist::ssh {

// Something that its user may have to answer is asked for, and takes longer: the user is told.
inline constexpr std::chrono::seconds kPatience{3};
// For how long a host or an agent that waits for its user is waited for.
inline constexpr std::chrono::seconds kUserLimit{120};

// A step that takes longer is printed, with its host.
inline constexpr std::chrono::seconds kStepPatience{5};
inline constexpr std::string_view kWaitsForConnection = "waits for a TCP connection";
inline constexpr std::string_view kWaitsForWay = "waits for a way to it (DNS, ProxyCommand)";
inline constexpr std::string_view kWaitsForVersion = "connected; waits for its SSH version";
inline constexpr std::string_view kWaitsForLogin = "connected; waits for the login";
inline constexpr std::string_view kWaitsForShell = "logged in; waits for a shell";
inline constexpr std::string_view kWaitsForTurn =
    "waits until other logins to this machine are through";
inline constexpr std::string_view kWaitsForConfig = "waits for ssh's configuration (ssh -G)";
// The same for a way that does not say whether it has reached the host, which may have no power.
inline constexpr std::chrono::seconds kUnknownWay{10};

inline TimePoint Within(std::chrono::milliseconds limit, TimePoint deadline) {
  return std::min(deadline, SystemClock().Now() + limit);
}

}  // namespace tfdist::ssh
