// Which process listens on a port: for an error message, and to tell this account's from others.
#pragma once

#include <optional>
#include <vector>

#include "agent/census/process_table.h"
#include "agent/census/tcp_table.h"

namespace tfdist::agent {

// The sockets at this local port, of all accounts and in all states; none where /proc does not show them.
std::vector<TcpSocket> SocketsAt(int port);

// The sockets that listen on `port`, of all accounts; none where /proc does not show them.
std::vector<TcpSocket> ListenersOn(int port);

// A process that has one of them. nullopt when it cannot be seen (another user's process).
std::optional<ProcessInfo> FindPortOwner(int port);

// Whether an account that is neither this one nor root listens on it. Root may do so for a container of this account.
bool IsPortOfAnotherAccount(int port);

}  // namespace tfdist::agent
