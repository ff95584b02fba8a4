#include "agent/census/port_owner.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <filesystem>
#include <set>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "base/file.h"

namespace tfdist::agent {
namespace {

constexpr size_t kMaxTableBytes = 16 * 1024 * 1024;
constexpr unsigned kListen = 0x0A;  // TCP_LISTEN in include/net/tcp_states.h

std::string ReadTable(const char* path) {
  return ReadFileIfExists(path, kMaxTableBytes).value_or("");
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

std::set<std::string> ListeningSockets(std::string_view table, int port) {
  std::set<std::string> sockets;
  // The first line names the columns.
  for (size_t end = table.find('\n'); end != std::string_view::npos;) {
    table.remove_prefix(end + 1);
    end = table.find('\n');
    const std::string line(table.substr(0, end));
    unsigned local_port = 0;
    unsigned state = 0;
    unsigned long inode = 0;
    const int fields = std::sscanf(
        line.c_str(), " %*d: %*[0-9A-F]:%x %*[0-9A-F]:%*x %x %*x:%*x %*x:%*x %*x %*u %*u %lu",
        &local_port, &state, &inode);
    if (fields == 3 && state == kListen && local_port == static_cast<unsigned>(port)) {
      sockets.insert(fmt::format("socket:[{}]", inode));
    }
  }
  return sockets;
}

std::optional<ProcessInfo> FindPortOwner(int port) {
  try {
    std::set<std::string> sockets = ListeningSockets(ReadTable("/proc/net/tcp"), port);
    sockets.merge(ListeningSockets(ReadTable("/proc/net/tcp6"), port));
    for (const ProcessInfo& process : ReadProcessTable()) {
      if (HoldsOneOf(fmt::format("/proc/{}/fd", process.id.pid), sockets)) return process;
    }
  } catch (const Error&) {
    // Only a nicer message is lost.
  }
  return std::nullopt;
}

}  // namespace tfdist::agent
