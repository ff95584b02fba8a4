// Which process listens on a port: for an error message, and to tell this account's from others.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "agent/census/process_table.h"
#include "agent/census/tcp_table.h"

namespace tfdist::agent {

// The sockets at this local port, of all accounts and in all states; none where /proc does not show them.
std::vector<TcpSocket> SocketsAt(int port);

// Whether /proc shows sockets here: where it does not, none are at any port as far as one can see.
bool SocketsAreShown();

// The sockets that listen on `port`, of all accounts; none where /proc does not show them. Those that keep a server from
// `address`, a numeric one; empty: from every address of the host.
std::vector<TcpSocket> ListenersOn(int port, const std::string& address = {});

// A process that has one of them. nullopt when it cannot be seen (another user's process).
std::optional<ProcessInfo> FindPortOwner(int port);

// Whether an account that is neither this one nor root listens on it. Root may do so for a container of this account.
bool IsPortOfAnotherAccount(int port);

}  // namespace tfdist::agent
