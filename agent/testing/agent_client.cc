#include "agent/testing/agent_client.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"

namespace tfdist::agent {

using protocol::Event;
using protocol::Json;
using protocol::Message;

namespace type = protocol::type;

namespace {

constexpr uint64_t kPingId = std::numeric_limits<uint64_t>::max();
constexpr std::chrono::seconds kPingInterval{5};

bool Matches(const Event& event, std::string_view kind, const Json& fields) {
  const Json has = protocol::FieldsOf(event);
  return protocol::KindOf(event.body) == kind &&
         std::all_of(fields.items().begin(), fields.items().end(), [&](const auto& field) {
           return has.contains(field.key()) && has.at(field.key()) == field.value();
         });
}

}  // namespace

AgentClient::AgentClient(const std::filesystem::path& executable, const std::string& role) {
  std::array<int, 2> in{};
  std::array<int, 2> out{};
  if (pipe2(in.data(), O_CLOEXEC) != 0 || pipe2(out.data(), O_CLOEXEC) != 0) {
    throw Error(Phase::kInternal, WithErrno("pipe", errno));
  }
  pid_ = fork();
  if (pid_ == 0) {
    dup2(in[0], STDIN_FILENO);
    dup2(out[1], STDOUT_FILENO);
    execl(executable.c_str(), executable.c_str(), role.c_str(), nullptr);
    _exit(127);
  }
  close(in[0]);
  close(out[1]);
  to_agent_.Reset(in[1]);
  from_agent_.Reset(out[0]);
}

AgentClient::AgentClient(AgentClient&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)),
      to_agent_(std::move(other.to_agent_)),
      from_agent_(std::move(other.from_agent_)),
      reader_(std::move(other.reader_)),
      kept_(std::move(other.kept_)),
      last_id_(other.last_id_),
      last_sent_(other.last_sent_),
      hung_up_(other.hung_up_) {}

AgentClient::~AgentClient() {
  to_agent_.Reset();
  from_agent_.Reset();
  if (pid_ > 0) waitpid(pid_, nullptr, 0);
}

uint64_t AgentClient::Send(std::string_view type, Json body, std::string payload) {
  const uint64_t id = ++last_id_;
  SendWithId(id, type, std::move(body), std::move(payload));
  return id;
}

void AgentClient::SendWithId(uint64_t id, std::string_view type, Json body, std::string payload) {
  last_sent_ = SystemClock().Now();
  try {
    WriteAll(to_agent_.get(),
             protocol::Frame({std::string(type), id, std::move(body), std::move(payload)}),
             "agent");
  } catch (const Error&) {
    // Receive() tells.
  }
}

Json AgentClient::Request(std::string_view type, Json body, std::string payload) {
  const uint64_t id = Send(type, std::move(body), std::move(payload));
  const Message answer =
      Wait([id](const Message& m) { return m.id == id; }, "the answer to " + std::string(type));
  protocol::ThrowIfError(answer);
  return answer.body;
}

Message AgentClient::Wait(const std::function<bool(const Message&)>& wanted,
                          const std::string& what) {
  const auto found = std::find_if(kept_.begin(), kept_.end(), wanted);
  if (found != kept_.end()) {
    Message message = std::move(*found);
    kept_.erase(found);
    return message;
  }
  auto now = SystemClock().Now();
  for (const auto deadline = now + kLong; !hung_up_ && now < deadline; now = SystemClock().Now()) {
    auto message = Receive(std::min(deadline, now + kPingInterval));
    PingAfterSilence();
    if (!message || message->id == kPingId) continue;
    if (wanted(*message)) return std::move(*message);
    kept_.push_back(std::move(*message));
  }
  throw Error(Phase::kControl,
              (hung_up_ ? "the agent hung up before " : "waited 60 s in vain for ") + what);
}

// Not before `create`: `start` takes nothing else first, and has no limit then.
void AgentClient::PingAfterSilence() {
  const auto silence = SystemClock().Now() - last_sent_;
  if (last_id_ > 0 && silence >= kPingInterval) SendWithId(kPingId, type::kPing, Json::object());
}

std::optional<Message> AgentClient::Receive(std::chrono::steady_clock::time_point deadline) {
  std::array<char, 65536> buffer{};
  while (true) {
    if (auto message = reader_.Next()) return message;
    pollfd waiting{from_agent_.get(), POLLIN, 0};
    const int ready = poll(&waiting, 1, PollTimeout(SystemClock().Now(), deadline));
    if (ready == 0) return std::nullopt;
    const ssize_t got = read(from_agent_.get(), buffer.data(), buffer.size());
    hung_up_ = got <= 0;
    if (hung_up_) return std::nullopt;
    reader_.Feed({buffer.data(), static_cast<size_t>(got)});
  }
}

protocol::Hello AgentClient::WaitForHello() {
  const Message message = Wait(
      [](const Message& m) { return m.type == type::kHello || m.type == type::kError; }, "hello");
  protocol::ThrowIfError(message);
  return protocol::Body<protocol::Hello>(message);
}

protocol::Hello AgentClient::WaitForHello(protocol::Serving serving) {
  auto hello = WaitForHello();
  EXPECT_EQ(hello.serving, serving);
  return hello;
}

std::vector<Event> AgentClient::WaitForEvent(uint64_t id, std::string_view kind,
                                             const Json& fields) {
  std::vector<Event> seen;
  while (true) {
    Message message =
        Wait([id](const Message& m) { return m.id == id; }, "an event " + std::string(kind));
    protocol::ThrowIfError(message);
    if (message.type == type::kEnd) throw Error(Phase::kControl, "the events ended");
    const auto events = message.body.at("events").get<std::vector<Event>>();
    const auto found = std::find_if(events.begin(), events.end(), [&](const Event& event) {
      return Matches(event, kind, fields);
    });
    const auto end = found == events.end() ? found : found + 1;
    seen.insert(seen.end(), events.begin(), end);
    if (found == events.end()) continue;
    message.body["events"] = std::vector<Event>(end, events.end());
    kept_.push_front(std::move(message));
    return seen;
  }
}

uint64_t AgentClient::OpenLog(const std::string& task, bool follow, uint64_t offset) {
  protocol::ReadLog request;
  request.task = task;
  request.offset = offset;
  request.follow = follow;
  request.credit = 64 * 1024;
  return Send(type::kReadLog, request);
}

std::string AgentClient::ReadToEnd(uint64_t log, uint64_t offset) {
  std::string text;
  while (true) {
    const Message message = Wait([log](const Message& m) { return m.id == log; }, "more of a log");
    protocol::ThrowIfError(message);
    if (message.type == type::kEnd) return text;
    const auto piece = protocol::Body<protocol::LogPiece>(message);
    EXPECT_EQ(piece.offset, offset + text.size());
    text += piece.data;
    SendWithId(log, type::kCredit, {{"bytes", piece.data.size()}});
  }
}

std::string AgentClient::ReadLog(const std::string& task, bool follow, uint64_t offset) {
  return ReadToEnd(OpenLog(task, follow, offset), offset);
}

bool AgentClient::WaitForEnd() {
  const auto deadline = SystemClock().Now() + kLong;
  while (Receive(deadline)) {
  }
  return hung_up_;
}

bool WaitUntil(const std::function<bool()>& condition, const std::string& what,
               std::chrono::milliseconds limit) {
  const auto deadline = SystemClock().Now() + limit;
  while (!condition()) {
    if (SystemClock().Now() > deadline) {
      ADD_FAILURE() << "waited in vain: " << what;
      return false;
    }
    poll(nullptr, 0, 5);
  }
  return true;
}

}  // namespace tfdist::agent
