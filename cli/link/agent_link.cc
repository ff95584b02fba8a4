#include "cli/link/agent_link.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/failures.h"
#include "base/process_limits.h"
#include "cli/channel/tail.h"
#include "cli/link/grace.h"

namespace tfdist::cli {
namespace {

using protocol::Message;

// `attach` ends 30 s after the last ping; firewalls drop what is idle for longer than they like.
constexpr std::chrono::seconds kPingInterval{5};
// A ping that stays unanswered so long means a dead connection, which TCP may notice only after
// hours.
constexpr std::chrono::seconds kSilenceLimit{15};
// A line names the host before that.
constexpr std::chrono::seconds kSilenceNamedAfter{5};
constexpr std::chrono::seconds kWriteLimit{30};
constexpr std::chrono::milliseconds kBetweenChecks{200};
// Start-up files, and what they leave running, print less.
constexpr size_t kMaxStrayBytes = 1024 * 1024;
constexpr uint64_t kPingId = protocol::kNoRequest;

TimePoint Now() { return SystemClock().Now(); }

bool IsPong(const Message& message) {
  return message.id == kPingId && message.type == protocol::type::kOk;
}

// The agent says unasked that the job will not begin.
bool IsWordToAll(const Message& message) {
  return message.id == protocol::kNoRequest && message.type == protocol::type::kError;
}

LostConnection HungUp(const ByteChannel& channel) {
  const std::string stderr_line = OnOneLine(channel.Stderr());
  return {
      Phase::kControl,
      stderr_line.empty() ? "the agent hung up" : fmt::format("the agent hung up: {}", stderr_line),
      std::string(LimitRemedy(stderr_line))};
}

void CheckVersions(int oldest, int newest) {
  if (oldest <= protocol::kVersion && newest >= protocol::kOldestVersion) return;
  throw Error(Phase::kStart,
              fmt::format("the agent speaks protocol {} to {}, this tfdist {} to {}", oldest,
                          newest, protocol::kOldestVersion, protocol::kVersion),
              "use the tfdist that started this job");
}

}  // namespace

std::vector<protocol::Event> EventsOf(const Message& message) {
  try {
    return message.body.at("events").get<std::vector<protocol::Event>>();
  } catch (const protocol::Json::exception& e) {
    throw ProtocolError(Phase::kControl,
                        fmt::format("malformed message '{}': {}", message.type, e.what()));
  }
}

int64_t AheadNsOf(const Message& end) {
  constexpr int64_t kStep = 1'000'000'000;
  constexpr int64_t kMost = INT64_MAX / 2;
  const int64_t now_ns = end.body.value("now_ns", int64_t{0});
  if (now_ns <= 0 || now_ns > kMost) return 0;
  return (now_ns - WallClockNanoseconds()) / kStep * kStep;
}

AgentLink::AgentLink(std::unique_ptr<ByteChannel> channel) : channel_(std::move(channel)) {}

protocol::Hello AgentLink::ReadHello(TimePoint deadline) {
  // Not before it: an agent of unknown version is not spoken to.
  pinging_ = false;
  greeted_ = false;
  std::optional<Message> message;
  try {
    message = Next(deadline);
    if (message && message->type == protocol::type::kRemoved) {
      TakeRemoved(*message);
      message = Next(deadline);
    }
  } catch (const LostConnection& error) {
    throw LostConnection(Phase::kStart, error.cause(), error.remedy());
  } catch (const protocol::EarlierProtocol&) {
    CheckVersions(1, 1);
  }
  if (!message) {
    throw SaysNothing(
        Phase::kStart, "the agent there has said nothing in time",
        "`ps -eo pid,stat,args` on that host shows a tfdist-agent that is stopped (T) "
        "or waits for a disk (D)");
  }
  protocol::ThrowIfError(*message);
  if (message->type != protocol::type::kHello) {
    throw ProtocolError(Phase::kStart,
                        fmt::format("the agent began with '{}'", OnOneLine(message->type)));
  }
  auto hello = protocol::Body<protocol::Hello>(*message);
  CheckVersions(hello.oldest, hello.newest);
  greeted_ = true;
  pinging_ = true;
  next_ping_ = Now() + kPingInterval;
  return hello;
}

protocol::Hello AgentLink::Create(const protocol::Create& create, TimePoint deadline) {
  Send(protocol::type::kCreate, create);
  return ReadHello(deadline);
}

protocol::Hello AgentLink::Resume(TimePoint deadline) {
  Send(protocol::type::kResume, protocol::Json::object());
  return ReadHello(deadline);
}

protocol::Json AgentLink::Call(std::string_view type, protocol::Json body, TimePoint deadline,
                               const std::function<void()>& check) {
  const uint64_t id = Send(type, std::move(body));
  Grace grace;
  while (!grace.IsOver(deadline)) {
    if (check) check();
    auto message = Next(check ? std::min(deadline, Now() + kBetweenChecks) : deadline);
    if (message && message->id == id) {
      protocol::ThrowIfError(*message);
      return std::move(message->body);
    }
    if (message && handler_) handler_(*message);
    if (!message && Now() >= deadline) break;
  }
  throw LostConnection(Phase::kControl, fmt::format("no answer to '{}' in time", type));
}

void AgentLink::TakeRemoved(const Message& message) {
  try {
    message.body.at("folders").get_to(removed_);
  } catch (const protocol::Json::exception& e) {
    throw ProtocolError(Phase::kStart,
                        fmt::format("malformed message '{}': {}", message.type, e.what()));
  }
}

uint64_t AgentLink::Send(std::string_view type, protocol::Json body) {
  const uint64_t id = NewId();
  SendWithId(type, id, std::move(body));
  return id;
}

void AgentLink::SendWithId(std::string_view type, uint64_t id, protocol::Json body) {
  Send({std::string(type), id, std::move(body)});
}

void AgentLink::Send(const Message& message) {
  channel_->Write(protocol::Frame(message), Now() + kWriteLimit);
}

std::optional<Message> AgentLink::Receive(TimePoint deadline) { return Next(deadline); }

void AgentLink::OnMessage(std::function<void(const Message&)> handler) {
  handler_ = std::move(handler);
}

int AgentLink::PollFd() const { return channel_->PollFd(); }

std::optional<Message> AgentLink::Next(TimePoint deadline) {
  Grace grace;
  const TimePoint named_at = Now() + kSilenceNamedAfter;
  while (true) {
    while (auto message = TakeMessage()) {
      if (greeted_ && IsWordToAll(*message)) protocol::ThrowIfError(*message);
      if (!IsPong(*message)) return message;
    }
    PingWhenDue();
    TimePoint turn = deadline;
    if (pinging_) turn = std::min(turn, next_ping_);
    if (!greeted_ && !named_) turn = std::min(turn, named_at);
    switch (channel_->Read(reader_.Buffer(), turn)) {
      case ByteChannel::ReadResult::kData:
        unanswered_since_.reset();
        named_ = false;
        if (grace.IsOver(deadline)) return std::nullopt;
        break;
      case ByteChannel::ReadResult::kEndOfFile:
        throw HungUp(*channel_);
      case ByteChannel::ReadResult::kTimeout:
        ThrowIfSilentForTooLong();
        if (!greeted_ && Now() >= named_at) NameTheSilence(deadline);
        if (unanswered_since_ && Now() >= *unanswered_since_ + kSilenceNamedAfter)
          NameTheSilence(*unanswered_since_ + kSilenceLimit);
        if (Now() >= deadline) return std::nullopt;
    }
  }
}

std::optional<Message> AgentLink::TakeMessage() {
  try {
    const std::string text = reader_.TakeStrayText();
    stray_bytes_ += text.size();
    AppendToTail(stray_, text);
    if (stray_bytes_ > kMaxStrayBytes) {
      throw ProtocolError(Phase::kControl, "other programs print without end");
    }
    return reader_.Next();
  } catch (const protocol::EarlierProtocol&) {
    throw;
  } catch (const ProtocolError& error) {
    const std::string text = OnOneLine(stray_);
    throw ProtocolError(error.phase(),
                        fmt::format("what comes from it is no answer of tfdist's agent: {}{}",
                                    error.cause(), text.empty() ? "" : "; it printed: " + text),
                        "see what prints into the connection or changes it: a program that a "
                        "start-up file (.bashrc) leaves running, a ForceCommand, a wrapper of the "
                        "login shell");
  }
}

void AgentLink::PingWhenDue() {
  const TimePoint now = Now();
  if (!pinging_ || now < next_ping_) return;
  next_ping_ = now + kPingInterval;
  if (!unanswered_since_) unanswered_since_ = now;
  SendWithId(protocol::type::kPing, kPingId, protocol::Json::object());
}

void AgentLink::NameTheSilence(TimePoint end) {
  if (std::exchange(named_, true)) return;
  const auto left = std::chrono::round<std::chrono::seconds>(end - Now());
  if (left.count() > 0)
    channel_->Note(fmt::format("logged in; waits for its agent, up to {} s more", left.count()));
}

void AgentLink::ThrowIfSilentForTooLong() const {
  if (!unanswered_since_ || Now() - *unanswered_since_ < kSilenceLimit) return;
  throw LostConnection(Phase::kControl,
                       fmt::format("no word from the agent for {} s", kSilenceLimit.count()));
}

}  // namespace tfdist::cli
