// What /proc shows, of which other accounts and a job's own tasks choose much: names of processes,
// environments, and the file in which a census writes what it could not end.
//
// Input: which one (first byte), then its text.
#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "agent/census/census.h"
#include "agent/census/left_file.h"
#include "agent/census/port_owner.h"
#include "agent/census/process_table.h"
#include "agent/census/tcp_table.h"

namespace tfdist::agent {
namespace {

constexpr std::string_view kBoot = "boot";

void TryStat(std::string_view line) {
  const auto process = ParseStat(line);
  if (!process) return;
  const std::string text = Describe(*process);
  assert(std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; }));
  const auto nobody = Descendants(process->id.pid, {*process, *process});
  assert(nobody.empty() || process->parent == process->id.pid);
}

// Whatever a process calls itself, the rest of its line is read as it is.
void TryName(std::string_view name) {
  const auto process =
      ParseStat(fmt::format("12 ({}) S 3 4 5 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 777 0 0\n", name));
  assert(process && process->comm == name);
  assert((process->id == ProcessId{.pid = 12, .start_time = 777}));
  assert(process->parent == 3 && process->group == 4 && process->session == 5);
}

void TryEnvironment(std::string_view bytes) {
  const std::string entry = fmt::format("{}=", kCookieName);
  const auto cookie = CookieIn(bytes);
  const bool is_there = bytes.starts_with(entry) || bytes.find('\0' + entry) != bytes.npos;
  assert(!cookie || is_there);
  // A path from the folder of all jobs to a slot's, and nowhere else.
  assert(!cookie || std::filesystem::path(*cookie).lexically_normal() == *cookie);
  assert(!cookie || (cookie->front() != '/' && cookie->front() != '.' &&
                     std::ranges::count(*cookie, '/') == 1));
}

void TryPorts(std::string_view table) {
  for (const TcpSocket& socket : ParseTcpTable(table)) {
    assert(socket.local_port >= 0 && socket.local_port <= 65535);
    assert(socket.local.find(':') != std::string::npos);
  }
}

void TryLeft(std::string_view text) {
  assert(text.starts_with(kBoot) || text.find(kBoot) != text.npos ||
         ParseLeft(std::string(text), kBoot).empty());
  const std::string of_this_boot = fmt::format("{}\n{}", kBoot, text);
  std::string written = fmt::format("{}\n", kBoot);
  const auto ids = ParseLeft(of_this_boot, kBoot);
  for (const ProcessId& id : ids) written += fmt::format("{} {}\n", id.pid, id.start_time);
  assert(ParseLeft(written, kBoot) == ids);
}

void Run(int which, std::string_view text) {
  switch (which) {
    case 0:
      return TryStat(text);
    case 1:
      return TryName(text);
    case 2:
      return TryEnvironment(text);
    case 3:
      return TryPorts(text);
    default:
      return TryLeft(text);
  }
}

}  // namespace
}  // namespace tfdist::agent

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  tfdist::agent::Run(data[0] % 5, {reinterpret_cast<const char*>(data + 1), size - 1});
  return 0;
}
