#include "agent/census/port_owner.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/file.h"

namespace tfdist::agent {
namespace {

constexpr size_t kMaxTableBytes = 16 * 1024 * 1024;

// Of what cannot be read nothing is known; whoever wants the port learns more by taking it.
std::string ReadTable(const char* path) {
  try {
    return ReadFileIfExists(path, kMaxTableBytes).value_or("");
  } catch (const Error&) {
    return "";
  }
}

// `local`: "10.0.0.1:2222", "[::]:2222".
bool IsInTheWay(const std::string& local, const std::string& address) {
  const std::string host = local.substr(0, local.rfind(':'));
  return address.empty() || host == "0.0.0.0" || host == "[::]" || host == address ||
         host == "[" + address + "]";
}

bool HoldsOneOf(const std::filesystem::path& descriptors, const std::set<std::string>& sockets) {
  std::error_code error;
  std::filesystem::directory_iterator entry(descriptors, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    std::error_code unreadable;
    const auto target = std::filesystem::read_symlink(entry->path(), unreadable);
    if (!unreadable && sockets.contains(target.string())) return true;
  }
  return false;
}

}  // namespace

std::vector<TcpSocket> SocketsAt(int port) {
  std::vector<TcpSocket> sockets;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    for (TcpSocket& socket : ParseTcpTable(ReadTable(table))) {
      if (socket.local_port == port) sockets.push_back(std::move(socket));
    }
  }
  return sockets;
}

bool SocketsAreShown() { return !ReadTable("/proc/net/tcp").empty(); }

std::vector<TcpSocket> ListenersOn(int port, const std::string& address) {
  std::vector<TcpSocket> sockets = SocketsAt(port);
  std::erase_if(sockets, [&](const TcpSocket& socket) {
    return !socket.listens() || !IsInTheWay(socket.local, address);
  });
  return sockets;
}

std::optional<ProcessInfo> FindPortOwner(int port) {
  try {
    std::set<std::string> sockets;
    for (const TcpSocket& socket : ListenersOn(port)) {
      sockets.insert(fmt::format("socket:[{}]", socket.inode));
    }
    for (const ProcessInfo& process : ReadProcessTable()) {
      if (HoldsOneOf(fmt::format("/proc/{}/fd", process.id.pid), sockets)) return process;
    }
  } catch (const Error&) {
    // Only a nicer message is lost.
  }
  return std::nullopt;
}

bool IsPortOfAnotherAccount(int port) {
  return std::ranges::any_of(ListenersOn(port), [](const TcpSocket& socket) {
    return socket.uid != geteuid() && socket.uid != 0;
  });
}

}  // namespace tfdist::agent
