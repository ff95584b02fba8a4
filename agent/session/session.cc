#include "agent/session/session.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "wire/refusal.h"

namespace tfdist::agent {

using protocol::Message;

namespace {

iovec VectorOf(std::string_view bytes) {
  return {const_cast<char*>(bytes.data()), bytes.size()};  // only read, whatever its type says
}

// What of both together is left after `sent` bytes.
ssize_t SendBoth(int fd, std::string_view first, std::string_view second, size_t sent) {
  const size_t of_first = std::min(sent, first.size());
  first.remove_prefix(of_first);
  second.remove_prefix(sent - of_first);
  std::array<iovec, 2> parts = {VectorOf(first), VectorOf(second)};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  return sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace

Session::Session(EventLoop& loop, UniqueFd fd, MessageHandler on_message)
    : loop_(loop), fd_(std::move(fd)), on_message_(std::move(on_message)) {}

void Session::Open(std::function<void()> on_closed) {
  on_closed_ = std::move(on_closed);
  watch_ = EventLoop::Watch(loop_, fd_.get(), POLLIN, [this](short revents) { OnReady(revents); });
  UpdateEvents();
}

void Session::Send(Message message) {
  if (!fd_.valid()) return;
  control_.push_back(OutgoingOf(std::move(message)));
  control_bytes_ += control_.back().size();
  UpdateEvents();
}

void Session::SendLog(Message message) {
  if (!fd_.valid()) return;
  log_.push_back(OutgoingOf(std::move(message)));
  log_bytes_ += log_.back().size();
  UpdateEvents();
}

Session::Outgoing Session::OutgoingOf(Message message) {
  return {protocol::FrameHead(message), std::move(message.payload)};
}

void Session::Hold() {
  ++holds_;
  UpdateEvents();
}

void Session::Unhold() {
  --holds_;
  if (holds_ == 0) Dispatch();
  UpdateEvents();
}

void Session::AddStream(uint64_t id, std::unique_ptr<Stream> stream) {
  if (!fd_.valid()) return;
  if (streams_.size() >= kMaxStreams) {
    throw protocol::Refusal(protocol::RefusalKind::kTooMany, Phase::kControl,
                            "too many streams at once");
  }
  Stream& added = *stream;
  streams_[id] = std::move(stream);
  added.Pump();
}

void Session::CreditStream(uint64_t id, uint64_t bytes) {
  const auto found = streams_.find(id);
  if (found != streams_.end()) found->second->Credit(bytes);
}

void Session::CancelStream(uint64_t id) { streams_.erase(id); }

void Session::PumpStreams() {
  for (const auto& [id, stream] : streams_) stream->Pump();
  DropEndedStreams();
}

bool Session::HasOpenStreams() const {
  for (const auto& [id, stream] : streams_) {
    if (!stream->ended()) return true;
  }
  return !control_.empty() || !log_.empty() || current_.size() > 0;
}

void Session::Close() {
  if (!fd_.valid()) return;
  const auto self = shared_from_this();
  streams_.clear();
  watch_ = {};
  fd_.Reset();
  on_closed_();
}

void Session::OnReady(short revents) {
  const auto self = shared_from_this();  // a handler may close the session
  if ((revents & POLLOUT) != 0) Write();
  if (fd_.valid() && (revents & POLLIN) != 0) Read();
  // Both directions are gone; POLLIN, if set, has been served first.
  if (fd_.valid() && (revents & (POLLHUP | POLLERR)) != 0 && (revents & POLLIN) == 0) Close();
}

void Session::Read() {
  char buffer[64 * 1024];
  const ssize_t got = read(fd_.get(), buffer, sizeof buffer);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) return Close();
  reader_.Feed({buffer, static_cast<size_t>(got)});
  Dispatch();
  UpdateEvents();
}

void Session::Dispatch() {
  if (dispatching_) return;
  dispatching_ = true;
  try {
    while (holds_ == 0 && fd_.valid()) {
      auto message = reader_.Next();
      if (!message) break;
      on_message_(shared_from_this(), std::move(*message));
    }
  } catch (const Error& e) {
    // Nobody knows where the next message of a broken stream begins.
    Log("session ended: {}", e.what());
    Close();
  }
  dispatching_ = false;
}

void Session::Write() {
  while (TakeNext()) {
    const ssize_t put = SendBoth(fd_.get(), current_.head, current_.payload, written_);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && errno == EAGAIN) break;
    if (put < 0) return Close();
    written_ += static_cast<size_t>(put);
  }
  PumpStreams();
  UpdateEvents();
}

// Whether there is something to write; control goes before log, but never into a message.
bool Session::TakeNext() {
  if (written_ < current_.size()) return true;
  current_ = {};
  written_ = 0;
  auto& queue = control_.empty() ? log_ : control_;
  if (queue.empty()) return false;
  auto& bytes = control_.empty() ? log_bytes_ : control_bytes_;
  current_ = std::move(queue.front());
  queue.pop_front();
  bytes -= current_.size();
  return true;
}

void Session::UpdateEvents() {
  if (!fd_.valid()) return;
  const bool reading = holds_ == 0 && control_bytes_ < kMaxControlBytes;
  const bool writing = !control_.empty() || !log_.empty() || written_ < current_.size();
  watch_.SetEvents(static_cast<short>((reading ? POLLIN : 0) | (writing ? POLLOUT : 0)));
}

void Session::DropEndedStreams() {
  std::erase_if(streams_, [](const auto& item) { return item.second->ended(); });
}

}  // namespace tfdist::agent
