#include "agent/census/tcp_table.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>

#include <array>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <optional>

#include "base/text.h"

namespace tfdist::agent {
namespace {

constexpr size_t kWordDigits =
    8;  // the kernel prints words of 32 bits, in the machine's byte order
constexpr size_t kWordsOfIpv6 = 4;

// "0100007F" or four such words, as bytes of the network's order.
std::optional<std::string> AddressBytes(std::string_view hex) {
  if (hex.size() != kWordDigits && hex.size() != kWordsOfIpv6 * kWordDigits) return std::nullopt;
  std::string bytes;
  for (; !hex.empty(); hex.remove_prefix(kWordDigits)) {
    uint32_t word = 0;
    const auto [stop, error] = std::from_chars(hex.data(), hex.data() + kWordDigits, word, 16);
    if (error != std::errc() || stop != hex.data() + kWordDigits) return std::nullopt;
    std::array<char, sizeof word> raw;
    std::memcpy(raw.data(), &word, sizeof word);
    bytes.append(raw.data(), raw.size());
  }
  constexpr std::string_view kMapped("\0\0\0\0\0\0\0\0\0\0\xff\xff", 12);
  if (bytes.starts_with(kMapped)) bytes.erase(0, kMapped.size());
  return bytes;
}

std::optional<std::string> EndText(std::string_view hex, int port) {
  const auto bytes = AddressBytes(hex);
  if (!bytes) return std::nullopt;
  std::array<char, INET6_ADDRSTRLEN> text;
  const bool is_ipv6 = bytes->size() > sizeof(in_addr);
  inet_ntop(is_ipv6 ? AF_INET6 : AF_INET, bytes->data(), text.data(), text.size());
  return is_ipv6 ? fmt::format("[{}]:{}", text.data(), port)
                 : fmt::format("{}:{}", text.data(), port);
}

std::optional<TcpSocket> ParseLine(const std::string& line) {
  std::array<char, 33> local{};
  std::array<char, 33> remote{};
  unsigned local_port = 0;
  unsigned remote_port = 0;
  unsigned long unread = 0;
  unsigned uid = 0;
  unsigned long inode = 0;
  TcpSocket socket;
  const int fields = std::sscanf(
      line.c_str(), " %*d: %32[0-9A-F]:%x %32[0-9A-F]:%x %x %lx:%*x %*x:%*x %*x %u %*u %lu",
      local.data(), &local_port, remote.data(), &remote_port, &socket.state, &unread, &uid, &inode);
  if (fields != 8 || local_port > 65535 || remote_port > 65535) return std::nullopt;
  const auto local_text = EndText(local.data(), static_cast<int>(local_port));
  const auto remote_text = EndText(remote.data(), static_cast<int>(remote_port));
  if (!local_text || !remote_text) return std::nullopt;
  socket.local = *local_text;
  socket.remote = *remote_text;
  socket.local_port = static_cast<int>(local_port);
  socket.unread_bytes = unread;
  socket.uid = uid;
  socket.inode = inode;
  return socket;
}

}  // namespace

std::vector<TcpSocket> ParseTcpTable(std::string_view table) {
  std::vector<TcpSocket> sockets;
  while (!table.empty()) {
    if (auto socket = ParseLine(std::string(TakeUpTo('\n', table)))) {
      sockets.push_back(*std::move(socket));
    }
  }
  return sockets;
}

}  // namespace tfdist::agent
