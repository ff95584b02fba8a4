#include "cli/ssh/libssh2/dial.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <list>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/failures.h"
#include "cli/ssh/config/path_words.h"
#include "cli/ssh/config/phase_deadline.h"
#include "cli/ssh/config/resolve.h"

namespace tfdist::ssh {
namespace {

using namespace std::chrono_literals;

// RFC 8305 5: "Connection Attempt Delay".
constexpr auto kHeadStart = 250ms;
// Before the end. The system sends the first packet of a connection again after 1, 3, 7 and 15 s: where the first ones
// were lost, a new connection comes sooner.
constexpr auto kLastTry = 2s;

struct Attempt {
  UniqueFd fd;
  Address address;
};

// Connections that are being made, and the errors of those that failed.
class Race {
 public:
  explicit Race(std::string host) : host_(std::move(host)) {}

  void Start(const Address& address);
  // One more to each address that has not answered.
  void StartAnew();
  // The first that succeeds before `until`; none may be under way then.
  UniqueFd Wait(TimePoint until);
  [[nodiscard]] bool idle() const { return attempts_.empty(); }
  [[noreturn]] void Fail() const;

 private:
  void Lost(const Address& address, int error_number);
  UniqueFd TakeWinner(const std::vector<pollfd>& polled);

  std::string host_;
  std::list<Attempt> attempts_;
  std::string errors_;
  bool refused_ = false;
};

void Race::Start(const Address& address) {
  UniqueFd fd(socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return Lost(address, errno);
  if (connect(fd.get(), address.get(), address.size()) != 0 && errno != EINPROGRESS) {
    return Lost(address, errno);
  }
  attempts_.push_back({std::move(fd), address});
}

void Race::StartAnew() {
  std::vector<Address> silent;
  for (const Attempt& attempt : attempts_) silent.push_back(attempt.address);
  for (const Address& address : silent) Start(address);
}

void Race::Lost(const Address& address, int error_number) {
  refused_ = refused_ || error_number == ECONNREFUSED;
  errors_ +=
      fmt::format("{}{}", errors_.empty() ? "" : "; ", WithErrno(address.Text(), error_number));
}

UniqueFd Race::Wait(TimePoint until) {
  while (!idle()) {
    std::vector<pollfd> polled;
    for (const Attempt& attempt : attempts_) polled.push_back({attempt.fd.get(), POLLOUT, 0});
    const int ready = poll(polled.data(), polled.size(), PollTimeout(SystemClock().Now(), until));
    if (ready == 0) break;
    if (UniqueFd winner = TakeWinner(polled); winner.valid()) return winner;
  }
  return {};
}

UniqueFd Race::TakeWinner(const std::vector<pollfd>& polled) {
  auto attempt = attempts_.begin();
  for (const pollfd& one : polled) {
    const auto current = attempt++;
    if (one.revents == 0) continue;
    int error_number = 0;
    socklen_t size = sizeof error_number;
    getsockopt(one.fd, SOL_SOCKET, SO_ERROR, &error_number, &size);
    if (error_number == 0) return std::move(current->fd);
    Lost(current->address, error_number);
    attempts_.erase(current);
  }
  return {};
}

void Race::Fail() const {
  std::string all = errors_;
  for (const Attempt& attempt : attempts_) {
    const std::string text = attempt.address.Text() + ": no answer";
    if (all.find(text) == std::string::npos) all.append(all.empty() ? "" : "; ").append(text);
  }
  const std::string remedy = fmt::format(
      "is {} up, and does its sshd listen there (Port in ~/.ssh/config)?{}", host_, kOrRateLimit);
  if (refused_) throw ConnectionRefused(Phase::kConnect, all, remedy);
  if (!idle()) throw NoAnswer(Phase::kConnect, all, remedy);
  throw Unreachable(Phase::kConnect, all, remedy);
}

void SetOptions(int fd) {
  const auto set = [&](int level, int option, int value) {
    setsockopt(fd, level, option, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);  // small messages go back and forth: Nagle would delay each one
  // Without an answer to these probes TCP ends the connection after 30 s, as of a host that has lost its power.
  set(IPPROTO_TCP, TCP_KEEPIDLE, 15);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  // There are no probes while something sent has no answer: as behind a way that lets no large packet through.
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 30'000);
}

}  // namespace

UniqueFd DialTcp(const std::string& host_name, int port, const Limits& limits, TimePoint deadline) {
  const std::vector<Address> addresses = Resolve(host_name, port, Within(limits.resolve, deadline));
  const TimePoint last = Within(limits.tcp, deadline);
  Race race(host_name);
  UniqueFd winner;
  for (size_t i = 0; i < addresses.size() && !winner.valid(); ++i) {
    race.Start(addresses[i]);
    winner = race.Wait(i + 1 < addresses.size() ? Within(kHeadStart, last) : last - kLastTry);
  }
  if (!winner.valid()) {
    race.StartAnew();
    winner = race.Wait(last);
  }
  if (!winner.valid()) race.Fail();
  SetOptions(winner.get());
  return winner;
}

Stream DialThrough(const JumpWay& jump) {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    throw Error(Phase::kConnect, WithErrno("socketpair", errno));
  }
  Stream stream{UniqueFd(ends[0])};
  const UniqueFd far_end(ends[1]);
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  stream.jump.emplace(cli::Child::Spawn(jump.argv, {far_end.get(), far_end.get(), -1}, jump.held));
  return stream;
}

}  // namespace tfdist::ssh
