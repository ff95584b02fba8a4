#include "agent/tasks/port_check.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <thread>
#include <utility>

#include "agent/census/census.h"
#include "agent/census/port_owner.h"
#include "agent/census/process_table.h"
#include "agent/control/tcp_address.h"
#include "agent/files/file_store.h"
#include "base/error.h"
#include "job/layout.h"
#include "wire/refusal.h"

namespace tfdist::agent {
namespace {

using protocol::Refusal;
using protocol::RefusalKind;

// Another agent of this machine that looks at the same port has it for as long as a system call
// takes.
constexpr int kLooks = 6;
// A process that is just taking the port or letting go of it shows in one table, and not in the
// next. A socket that is bound and does not listen shows in none.
constexpr int kMostLooks = 50;
constexpr std::chrono::milliseconds kPause{20};
constexpr std::string_view kOtherPorts =
    "choose other ports: --set cluster.ports=auto, or `ports` (`more_ports`) in the cluster file";
constexpr int kFirstForAll = 1024;  // ports below it are for privileged accounts

// What to listen on for every address of the host. Two sockets, so that neither hides that the
// other's port is taken.
constexpr std::array<std::string_view, 2> kEveryAddress = {"0.0.0.0", "::"};
// Agents of a whole cluster may dial a port that is kept at once.
constexpr int kBacklog = 1024;

// 0, or the errno value of what was refused. Where the host does not have the address, or no IPv6,
// `taken` stays as it was.
int TryListen(const std::string& address, int port, std::vector<UniqueFd>& taken) {
  const TcpAddress local = ParseTcpAddress(address, port);
  UniqueFd fd(socket(local.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return errno == EAFNOSUPPORT ? 0 : errno;  // no IPv6 here
  const int yes = 1;
  // As servers do: connections in TIME_WAIT do not count where the earlier server had set it, too.
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (local.family() == AF_INET6) {
    setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof yes);
  }
  if (bind(fd.get(), local.get(), local.size) != 0) return errno == EADDRNOTAVAIL ? 0 : errno;
  // Two sockets with SO_REUSEADDR may be bound to one port, but not listen on it (socket(7)).
  if (listen(fd.get(), kBacklog) != 0) return errno;
  taken.push_back(std::move(fd));
  return 0;
}

// The same for all of `addresses`, all or none.
int TryPort(int port, std::span<const std::string_view> addresses, std::vector<UniqueFd>& taken) {
  taken.clear();
  for (const std::string_view address : addresses) {
    if (const int error = TryListen(std::string(address), port, taken); error != 0) return error;
  }
  return 0;
}

bool IsLeftInTimeWait(int port) {
  const auto sockets = SocketsAt(port);
  return !sockets.empty() && std::ranges::all_of(sockets, &TcpSocket::is_left);
}

std::string JobOf(const ProcessInfo& process) {
  const auto cookie = CookieOfProcess(process.id.pid);
  const auto slot = cookie ? layout::ParseSlotPath(*cookie) : std::nullopt;
  return slot ? slot->job : "";
}

// `tfdist check` runs what is called after its content. Another check may have removed the file
// meanwhile, which shows in the name (proc_pid_exe(5)).
bool IsCheck(const ProcessInfo& process) {
  constexpr std::string_view kDeleted = " (deleted)";
  std::string program = ExecutableOf(process.id.pid).string();
  if (program.ends_with(kDeleted)) program.resize(program.size() - kDeleted.size());
  const std::filesystem::path path = program;
  return path.parent_path().filename() == layout::kAgents && IsSha256(path.filename().string());
}

// Who has a port, as one look at the tables shows.
struct PortHolder {
  std::optional<ProcessInfo> owner;
  std::vector<TcpSocket> listeners;
  bool is_check = false;  // the owner

  // A holder that is not seen is a process that begins or ends just now.
  [[nodiscard]] bool is_known() const {
    return owner || (!listeners.empty() && listeners[0].uid != geteuid());
  }
};

PortHolder FindHolder(int port) {
  PortHolder holder{.owner = FindPortOwner(port), .listeners = ListenersOn(port)};
  holder.is_check = holder.owner && IsCheck(*holder.owner);
  // One that has ended since shows no executable, and has no port any more.
  if (holder.owner && !holder.is_check && !IsRunning(holder.owner->id)) return {};
  return holder;
}

// `words`: " by pid 17 (python3)"
[[noreturn]] void FailInUse(int port, const std::string& task, const std::string& words,
                            const std::string& remedy) {
  throw Refusal(RefusalKind::kPortTaken, Phase::kPorts,
                fmt::format("port {} of {} is in use{}", port, task, words), remedy);
}

[[noreturn]] void FailInUse(int port, const std::string& task, const PortHolder& holder) {
  if (!holder.owner && holder.listeners.empty()) {
    FailInUse(port, task, "", std::string(kOtherPorts));
  } else if (!holder.owner) {
    FailInUse(port, task, fmt::format(" by a process of user id {}", holder.listeners[0].uid),
              fmt::format("ask that user, or {}", kOtherPorts));
  } else if (holder.is_check) {
    throw PortIsChecked(fmt::format("port {} of {} is held by a `tfdist check`", port, task));
  }
  const std::string words = " by " + Describe(*holder.owner);
  const std::string job = JobOf(*holder.owner);
  if (job.empty())
    FailInUse(port, task, words, fmt::format("end that process, or {}", kOtherPorts));
  FailInUse(port, task, fmt::format("{} of job {}", words, job), RemedyForPortOfJob(job));
}

[[noreturn]] void Fail(int port, const std::string& task, int error_number) {
  throw Refusal(RefusalKind::kPortTaken, Phase::kPorts,
                WithErrno(fmt::format("port {} of {}", port, task), error_number),
                std::string(kOtherPorts));
}

// A process has the port. Throws an error with its name where /proc shows it; after kMostLooks, an error without a name.
void LookForHolder(int port, const std::string& task, int looks) {
  if (IsLeftInTimeWait(port)) {
    throw PortWaits(
        fmt::format("port {} of {} is held by connections of a server that has ended "
                    "(TIME_WAIT)",
                    port, task));
  }
  const PortHolder holder = FindHolder(port);
  if (holder.is_known() || looks >= kMostLooks) FailInUse(port, task, holder);
}

}  // namespace

std::string RemedyForPortOfJob(const std::string& job) {
  return fmt::format(
      "wait for that job or end it, where it was started (tfdist wait {0}, tfdist down "
      "{0}; it may be a colleague's), or {1}",
      job, kOtherPorts);
}

std::vector<UniqueFd> TakePort(int port, const std::string& task, const std::string& address) {
  const std::string_view only = address;
  const auto addresses = address.empty() ? std::span<const std::string_view>(kEveryAddress)
                                         : std::span<const std::string_view>(&only, 1);
  std::vector<UniqueFd> taken;
  for (int looks = 1;; ++looks) {
    const int error = TryPort(port, addresses, taken);
    if (error == 0) return taken;
    if (error != EADDRINUSE) Fail(port, task, error);
    if (looks >= kLooks) LookForHolder(port, task, looks);
    std::this_thread::sleep_for(kPause);
  }
}

void CheckPort(int port, const std::string& task) { (void)TakePort(port, task); }

void LookAtPort(int port, const std::string& task, const std::string& address) {
  if (port < kFirstForAll || !SocketsAreShown()) {
    (void)TakePort(port, task, address);
    return;
  }
  for (int looks = 1; !ListenersOn(port, address).empty(); ++looks) {
    LookForHolder(port, task, looks);
    std::this_thread::sleep_for(kPause);
  }
}

bool IsPortOfCheck(int port) {
  const auto owner = FindPortOwner(port);
  return owner && IsCheck(*owner);
}

bool IsPortPassing(int port) {
  const PortHolder holder = FindHolder(port);
  return holder.owner ? holder.is_check : !holder.is_known();
}

bool IsPortOfJob(int port, const std::string& job) {
  const auto owner = FindPortOwner(port);
  return owner && JobOf(*owner) == job;
}

}  // namespace tfdist::agent
