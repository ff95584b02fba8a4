#include "agent/census/port_owner.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <filesystem>
#include <set>
#include <string_view>
#include <system_error>

#include "agent/census/process_table.h"
#include "base/error.h"
#include "base/file.h"

namespace tfdist::agent {
namespace {

constexpr size_t kMaxTableBytes = 16 * 1024 * 1024;
constexpr unsigned kListen = 0x0A;  // TCP_LISTEN in include/net/tcp_states.h

// Adds the inodes of the sockets that listen on `port`, from /proc/net/tcp or tcp6 (proc(5)).
void AddInodes(const char* table, int port, std::set<std::string>& inodes) {
  const auto text = ReadFileIfExists(table, kMaxTableBytes).value_or("");
  size_t start = text.find('\n');
  while (start != std::string::npos) {
    const char* line = text.c_str() + start + 1;
    unsigned local_port = 0;
    unsigned state = 0;
    unsigned long inode = 0;
    const int fields =
        std::sscanf(line, " %*d: %*[0-9A-F]:%x %*[0-9A-F]:%*x %x %*x:%*x %*x:%*x %*x %*u %*u %lu",
                    &local_port, &state, &inode);
    if (fields == 3 && state == kListen && local_port == static_cast<unsigned>(port)) {
      inodes.insert(fmt::format("socket:[{}]", inode));
    }
    start = text.find('\n', start + 1);
  }
}

bool HoldsOneOf(const std::filesystem::path& descriptors, const std::set<std::string>& inodes) {
  std::error_code error;
  std::filesystem::directory_iterator entry(descriptors, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    std::error_code unreadable;
    const auto target = std::filesystem::read_symlink(entry->path(), unreadable);
    if (!unreadable && inodes.contains(target.string())) return true;
  }
  return false;
}

}  // namespace

std::optional<std::string> FindPortOwner(int port) {
  try {
    std::set<std::string> inodes;
    AddInodes("/proc/net/tcp", port, inodes);
    AddInodes("/proc/net/tcp6", port, inodes);
    for (const ProcessInfo& process : ReadProcessTable()) {
      if (HoldsOneOf(fmt::format("/proc/{}/fd", process.id.pid), inodes)) return Describe(process);
    }
  } catch (const Error&) {
    // Only a nicer message is lost.
  }
  return std::nullopt;
}

}  // namespace tfdist::agent
