#include "agent/check/reach.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <list>
#include <optional>

#include "agent/control/host_names.h"
#include "agent/control/tcp_address.h"
#include "base/error.h"
#include "base/unique_fd.h"

namespace tfdist::agent {
namespace {

using protocol::ReachFailure;
using protocol::Target;
using protocol::Unreached;

constexpr size_t kAtATime = 512;

ReachFailure KindOf(int error_number) {
  switch (error_number) {
    case ETIMEDOUT:
      return ReachFailure::kSilent;
    case EHOSTUNREACH:
    case ENETUNREACH:
    case EADDRNOTAVAIL:
    case EAFNOSUPPORT:
      return ReachFailure::kNoRoute;
    default:
      return ReachFailure::kRefused;
  }
}

std::string Words(int error_number) {
  const char* text = strerrordesc_np(error_number);
  return text != nullptr ? text : "unknown error";
}

// One target: its addresses, one after the other, until one of them answers as it should.
class Call {
 public:
  Call(const Handshake& handshake, const Target& target, size_t number, const KnownNames& names)
      : handshake_(handshake), target_(target) {
    failure_.target = number;
    if (IsNumericAddress(target.address)) {
      addresses_ = {target.address};
    } else if (const auto known = names.find(target.address); known != names.end()) {
      addresses_ = known->second;
    }
    failure_.failure = ReachFailure::kUnresolved;
  }

  // Dials the next address. False: there is none left, and failure() says why.
  bool DialNext(TimePoint deadline) {
    while (next_ < addresses_.size()) {
      const auto left = static_cast<int64_t>(addresses_.size() - next_);
      const TimePoint now = SystemClock().Now();
      limit_ = now + (deadline - now) / left;
      failure_.address = addresses_[next_++];
      if (Dial()) return true;
    }
    return false;
  }

  // False: this address has failed, or (reached()) has answered.
  bool Step(short revents, TimePoint now) {
    if (revents != 0) return asked_ ? Listen() : Ask();
    if (now < limit_) return true;
    if (!asked_) return Fail(ETIMEDOUT);
    return Fail(ReachFailure::kStranger, "it takes the connection and says nothing");
  }

  [[nodiscard]] pollfd Interest() const {
    return {fd_.get(), static_cast<short>(asked_ ? POLLIN : POLLOUT), 0};
  }
  [[nodiscard]] TimePoint limit() const { return limit_; }
  [[nodiscard]] bool reached() const { return reached_; }
  [[nodiscard]] const Unreached& failure() const { return failure_; }

 private:
  bool Dial() {
    asked_ = false;
    answer_.clear();
    const TcpAddress address = ParseTcpAddress(failure_.address, target_.port);
    fd_.Reset(socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd_.valid()) return Fail(errno);
    // No TIME_WAIT: not even on this side, which may be the same machine.
    constexpr linger kByReset{.l_onoff = 1, .l_linger = 0};
    setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &kByReset, sizeof kByReset);
    if (connect(fd_.get(), address.get(), address.size) == 0 || errno == EINPROGRESS) return true;
    return Fail(errno);
  }

  bool Ask() {
    int error_number = 0;
    socklen_t size = sizeof error_number;
    getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &error_number, &size);
    if (error_number != 0) return Fail(error_number);
    question_ = handshake_.Question(target_.port);
    // A new connection takes so few bytes at once.
    if (send(fd_.get(), question_.data(), question_.size(), MSG_NOSIGNAL) < 0) return Fail(errno);
    asked_ = true;
    return true;
  }

  bool Listen() {
    std::array<char, kAnswerBytes> buffer{};
    const ssize_t got = recv(fd_.get(), buffer.data(), kAnswerBytes - answer_.size(), 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    if (got <= 0) return Fail(ReachFailure::kStranger, "it takes the connection and hangs up");
    answer_.append(buffer.data(), static_cast<size_t>(got));
    if (answer_.size() < kAnswerBytes) return true;
    const std::optional<int> slot = handshake_.Slot(answer_, question_, target_.port);
    if (!slot) return Fail(ReachFailure::kStranger, "it says something else");
    reached_ = *slot == target_.slot;
    failure_.answered_by = *slot;
    return Fail(ReachFailure::kOtherHost, "");
  }

  bool Fail(int error_number) { return Fail(KindOf(error_number), Words(error_number)); }
  bool Fail(ReachFailure failure, std::string why) {
    failure_.failure = failure;
    failure_.why = std::move(why);
    fd_.Reset();
    return false;
  }

  const Handshake& handshake_;
  const Target& target_;
  std::vector<std::string> addresses_;
  size_t next_ = 0;
  UniqueFd fd_;
  TimePoint limit_;
  bool asked_ = false;
  bool reached_ = false;
  std::string question_;
  std::string answer_;
  Unreached failure_;
};

// Lets every call that something has happened to go on; takes away those that are through.
void Turn(std::list<Call>& calls, TimePoint deadline, std::vector<Unreached>& failures) {
  std::vector<pollfd> fds;
  TimePoint until = deadline;
  for (const Call& call : calls) {
    fds.push_back(call.Interest());
    until = std::min(until, call.limit());
  }
  poll(fds.data(), fds.size(), PollTimeout(SystemClock().Now(), until));
  const TimePoint now = SystemClock().Now();
  auto polled = fds.begin();
  for (auto call = calls.begin(); call != calls.end();) {
    const short revents = (polled++)->revents;
    if (call->Step(revents, now) || (!call->reached() && call->DialNext(deadline))) {
      ++call;
      continue;
    }
    if (!call->reached()) failures.push_back(call->failure());
    call = calls.erase(call);
  }
}

}  // namespace

std::vector<Unreached> FindUnreached(const Handshake& handshake, const std::vector<Target>& targets,
                                     const KnownNames& names, TimePoint deadline) {
  std::vector<Unreached> failures;
  std::list<Call> calls;
  for (size_t next = 0; next < targets.size() || !calls.empty();) {
    while (next < targets.size() && calls.size() < kAtATime) {
      Call& call = calls.emplace_back(handshake, targets[next], next, names);
      ++next;
      if (call.DialNext(deadline)) continue;
      failures.push_back(call.failure());
      calls.pop_back();
    }
    if (!calls.empty()) Turn(calls, deadline, failures);
  }
  std::sort(failures.begin(), failures.end(),
            [](const Unreached& a, const Unreached& b) { return a.target < b.target; });
  return failures;
}

}  // namespace tfdist::agent
