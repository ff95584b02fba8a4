// Which process listens on a port: for an error message.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "agent/census/process_table.h"

namespace tfdist::agent {

// nullopt when it cannot be seen (another user's process).
std::optional<ProcessInfo> FindPortOwner(int port);

// The sockets that listen on `port`, as /proc/PID/fd shows them ("socket:[123]"), from the text of
// /proc/net/tcp or tcp6 (proc(5)).
std::set<std::string> ListeningSockets(std::string_view table, int port);

}  // namespace tfdist::agent
