#include "agent/check/held_ports.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/error.h"

namespace tfdist::agent {
namespace {

// Of callers that have not hung up; a further one takes the place of the oldest. Every host of the job may come
// at once, to each port.
constexpr std::chrono::milliseconds kOutOfDescriptorsPause{100};
constexpr size_t kMostCallers = 4096;
constexpr std::chrono::seconds kPatience{3};
constexpr std::chrono::hours kForEver{1};
// Closed by a reset: a connection in TIME_WAIT would keep the job's own server off the port for a
// minute, unless it sets SO_REUSEADDR.
constexpr linger kCloseByReset{.l_onoff = 1, .l_linger = 0};

}  // namespace

HeldPorts::~HeldPorts() {
  if (!thread_.joinable()) return;
  eventfd_write(stop_.get(), 1);
  thread_.join();
}

void HeldPorts::Add(UniqueFd listener, int port) {
  fcntl(listener.get(), F_SETFL, O_NONBLOCK);
  listeners_.push_back({std::move(listener), port});
}

void HeldPorts::Serve() {
  stop_.Reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop_.valid()) throw Error(Phase::kStart, WithErrno("eventfd", errno));
  thread_ = std::thread([this] { Loop(); });
}

void HeldPorts::Loop() {
  while (true) {
    std::vector<pollfd> fds = {{stop_.get(), POLLIN, 0}};
    // A connection that nobody can accept would wake us at once, again and again.
    const short wanted = SystemClock().Now() < accept_from_ ? 0 : POLLIN;
    for (const Listener& listener : listeners_) fds.push_back({listener.fd.get(), wanted, 0});
    for (const Caller& caller : callers_) fds.push_back({caller.fd.get(), POLLIN, 0});
    poll(fds.data(), fds.size(), PollTimeout(SystemClock().Now(), NextLimit()));
    if (fds[0].revents != 0) return;
    const TimePoint now = SystemClock().Now();
    auto polled = fds.begin() + 1 + static_cast<ptrdiff_t>(listeners_.size());
    for (auto caller = callers_.begin(); caller != callers_.end();) {
      const bool spoke = (polled++)->revents != 0;
      const bool goes_on = spoke ? Hear(*caller) : now < caller->limit;
      caller = goes_on ? std::next(caller) : callers_.erase(caller);
    }
    AcceptAll(fds);
  }
}

TimePoint HeldPorts::NextLimit() const {
  const TimePoint now = SystemClock().Now();
  const TimePoint limit = callers_.empty() ? now + kForEver : callers_.front().limit;
  return now < accept_from_ ? std::min(limit, accept_from_) : limit;
}

void HeldPorts::AcceptAll(const std::vector<pollfd>& fds) {
  for (size_t i = 0; i < listeners_.size(); ++i) {
    if (fds[i + 1].revents != 0) Accept(listeners_[i]);
  }
}

void HeldPorts::Accept(const Listener& listener) {
  while (true) {
    UniqueFd fd(accept4(listener.fd.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd.valid()) {
      if (errno == EMFILE || errno == ENFILE)
        accept_from_ = SystemClock().Now() + kOutOfDescriptorsPause;
      return;
    }
    setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &kCloseByReset, sizeof kCloseByReset);
    if (callers_.size() == kMostCallers) callers_.pop_front();
    callers_.push_back({std::move(fd), listener.port, SystemClock().Now() + kPatience, {}});
  }
}

bool HeldPorts::Hear(Caller& caller) const {
  std::array<char, kQuestionBytes> buffer{};
  const size_t missing = kQuestionBytes - caller.question.size();
  if (missing == 0) return false;  // it has hung up, as it should, or goes on talking
  const ssize_t got = recv(caller.fd.get(), buffer.data(), missing, 0);
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  if (got == 0) return false;
  caller.question.append(buffer.data(), static_cast<size_t>(got));
  if (caller.question.size() < kQuestionBytes) return true;
  const auto answer = handshake_.Answer(caller.question, caller.port, slot_);
  if (!answer) return false;
  // A new connection takes so few bytes at once. A reset now might overtake them.
  return send(caller.fd.get(), answer->data(), answer->size(), MSG_NOSIGNAL) > 0;
}

}  // namespace tfdist::agent
