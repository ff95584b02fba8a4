#include "agent/attach/folder_server.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <span>
#include <utility>
#include <variant>

#include "agent/attach/agent_search.h"
#include "agent/census/process_table.h"
#include "agent/coordinator/disk/journal.h"
#include "agent/coordinator/relay/event_batch.h"
#include "agent/files/file_store.h"
#include "agent/process/run_folder.h"
#include "agent/session/unix_listener.h"
#include "agent/slot/leave_folder.h"
#include "agent/slot/run_folders.h"
#include "agent/slot/slot_census.h"
#include "agent/slot/this_machine.h"
#include "agent/start/launch_again.h"
#include "agent/stdio/stdio_messages.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "wire/refusal.h"

namespace tfdist::agent {
namespace {

using protocol::Json;
using protocol::Message;
using protocol::Refusal;
using protocol::RefusalKind;

namespace type = protocol::type;

constexpr std::chrono::seconds kSweepLimit{10};
constexpr size_t kMostOrphanedBytes = 1024;

Message Answer(std::string_view type, uint64_t id, Json body = Json::object()) {
  return {std::string(type), id, std::move(body)};
}

std::optional<std::string> WhyOrphaned(const SlotFolder& folder) {
  return ReadOwnFileIfExists(folder.orphaned(), kMostOrphanedBytes);
}

// An agent that leaves takes its key along, unless the job may go on. A keeper starts one again that is killed alone.
std::optional<std::string> WhyKilled(const SlotFolder& folder) {
  if (!std::filesystem::exists(folder.key())) return std::nullopt;
  if (auto why = WhyOrphaned(folder)) return why;
  if (HostWasRestarted(folder)) return "the host was restarted";
  return "all processes of tfdist there were killed at once, and the host was not restarted: "
         "whoever "
         "ended its login did it (OOMPolicy of its session, systemd-oomd, pkill -u)";
}

bool StdinReady(std::chrono::milliseconds limit) {
  pollfd waiting{STDIN_FILENO, POLLIN, 0};
  return poll(&waiting, 1, static_cast<int>(limit.count())) != 0;
}

}  // namespace

FolderServer::FolderServer(SlotFolder folder, SlotInfo info, const HostSettings& host,
                           std::optional<std::string> silent)
    : folder_(std::move(folder)), info_(std::move(info)), host_(host), silent_(std::move(silent)) {}

std::optional<UniqueFd> FolderServer::Run(std::chrono::milliseconds idle_limit) {
  SendHello();
  while (true) {
    const bool busy = std::any_of(readers_.begin(), readers_.end(),
                                  [](const auto& item) { return item.second.credit > 0; });
    if (StdinReady(busy ? std::chrono::milliseconds(0) : idle_limit)) {
      const auto message = ReadMessage(STDIN_FILENO, SystemClock().Now() + idle_limit);
      if (!message) return std::nullopt;
      Handle(*message);
      if (agent_) return std::move(agent_);
    } else if (!busy) {
      return std::nullopt;
    }
    SendLogs();
  }
}

void FolderServer::SendLogs() {
  for (auto item = readers_.begin(); item != readers_.end();) {
    auto& [id, reader] = *item;
    item = reader.credit > 0 && !SendLog(id, reader) ? readers_.erase(item) : std::next(item);
  }
}

void FolderServer::SendHello() const {
  protocol::Hello hello;
  hello.serving = protocol::Serving::kFolder;
  hello.agent_sha256 = HashFile("/proc/self/exe");
  hello.base = info_.base;
  hello.job = info_.job;
  hello.slot = info_.slot;
  if (!info_.damage.empty()) hello.damage = info_.damage;
  hello.orphaned = WhyOrphaned(folder_);
  hello.silent = silent_;
  if (!silent_) hello.killed = WhyKilled(folder_);
  WriteToStdout(Answer(type::kHello, 0, hello));
}

void FolderServer::Handle(const Message& message) {
  try {
    Dispatch(message);
  } catch (const Error& e) {
    WriteToStdout(protocol::ErrorMessage(message.id, e));
  } catch (const Json::exception& e) {
    WriteToStdout(protocol::ErrorMessage(message.id, ProtocolError(Phase::kControl, e.what())));
  }
}

void FolderServer::Dispatch(const Message& message) {
  if (message.type == type::kPing) return WriteToStdout(Answer(type::kOk, message.id));
  if (message.type == type::kEvents) return SendEvents(message);
  if (message.type == type::kReadLog) return OpenLog(message);
  if (message.type == type::kSweep) return Sweep(message);
  if (message.type == type::kAbort) return Abort(message);
  if (message.type == type::kResume) return Resume();
  if (message.type == type::kStartAgain) return StartAgain(message);
  if (message.type == type::kCancel) {
    readers_.erase(message.id);
    return;
  }
  if (message.type == type::kCredit) {
    const auto reader = readers_.find(message.id);
    if (reader != readers_.end()) reader->second.credit += message.body.at("bytes").get<uint64_t>();
    return;
  }
  throw Refusal(RefusalKind::kWrongState, Phase::kDown, "the job is over");
}

void FolderServer::SendEvents(const Message& message) const {
  const auto events = ReadJournal(folder_.journal()).events;
  auto next = std::max<uint64_t>(message.body.at("from").get<uint64_t>(), 1);
  const auto first = std::ranges::lower_bound(events, next, {}, &protocol::Event::number);
  std::span<const protocol::Event> rest(first, events.end());
  while (!rest.empty()) {
    EventBatch batch = MakeEventBatch(rest);
    WriteToStdout(Answer(type::kEvent, message.id, std::move(batch.body)));
    rest = rest.subspan(batch.count);
    next = batch.next;
  }
  // The clock of the events goes on; the host's may have been set back.
  const int64_t now_ns =
      std::max(WallClockNanoseconds(), events.empty() ? 0 : events.back().time_ns);
  WriteToStdout(Answer(type::kEnd, message.id, {{"offset", next}, {"now_ns", now_ns}}));
}

void FolderServer::OpenLog(const Message& message) {
  const auto request = protocol::Body<protocol::ReadLog>(message);
  const auto task_folder = folder_.TaskFolder(request.task);
  if (!IsTaskName(request.task) || !std::filesystem::exists(task_folder)) {
    throw Refusal(RefusalKind::kWrongHost, Phase::kLogs,
                  fmt::format("this host has no output of '{}'", request.task));
  }
  readers_.erase(message.id);
  readers_.emplace(message.id, Reader{LogCursor(task_folder, request), request.credit});
}

bool FolderServer::SendLog(uint64_t id, Reader& reader) {
  try {
    const auto piece = reader.cursor.Next(reader.credit, LogEnd::kClosed);
    if (!piece) return true;
    if (piece->data.empty()) {
      WriteToStdout(Answer(type::kEnd, id, {{"offset", piece->offset}}));
      return false;
    }
    reader.credit -= std::min<uint64_t>(reader.credit, piece->data.size());
    WriteToStdout(protocol::MessageWith(type::kLog, id, *piece));
    return true;
  } catch (const LogUnreadable& e) {
    WriteToStdout(protocol::ErrorMessage(id, e));
    return false;
  }
}

// Of an agent that could not be kept alive, or was lost while its host was brought up.
void FolderServer::Abort(const Message& message) const {
  std::error_code error;
  const bool committed = std::filesystem::exists(folder_.committed(), error) ||
                         !ReadJournal(folder_.journal()).events.empty();
  if (committed) throw Refusal(RefusalKind::kWrongState, Phase::kStart, "the job has begun");
  const auto census =
      EndSlotProcesses(folder_, info_, {getpid()}, SystemClock().Now() + kSweepLimit);
  if (!census.left.empty()) {
    throw Error(Phase::kStart, fmt::format("still there: {}", fmt::join(census.left, ", ")));
  }
  RemoveSlotFolder(folder_);
  const bool is_left = std::filesystem::exists(folder_.path(), error);
  WriteToStdout(Answer(type::kOk, message.id, {{"left", is_left ? folder_.path().string() : ""}}));
}

// What the slot's agent would go on with.
bool FolderServer::IsToGoOn() const {
  if (!info_.damage.empty()) return false;
  if (info_.slot != 0) return std::filesystem::exists(folder_.committed());
  const auto events = ReadJournal(folder_.journal()).events;
  return !events.empty() && std::ranges::none_of(events, [](const protocol::Event& event) {
    return std::holds_alternative<protocol::event::Ended>(event.body);
  });
}

// Either way a hello follows: the agent's own, or this one's.
void FolderServer::Resume() {
  FoundAgent found = ResumeAgent(folder_);
  agent_ = std::move(found.agent);
  silent_ = std::move(found.silent);
  if (!agent_) SendHello();
}

void FolderServer::StartAgain(const Message& message) const {
  // Several commands may be at it.
  const UniqueFd log = OpenFile(folder_.log(), O_WRONLY | O_APPEND);
  if (flock(log.get(), LOCK_EX | LOCK_NB) != 0) {
    throw Refusal(RefusalKind::kWrongState, Phase::kStart, "another command starts its agent",
                  "try again in a moment");
  }
  const std::optional<std::string> why = WhyKilled(folder_);
  const Machine here = ThisMachine();
  if (!why || silent_ || !IsToGoOn()) {
    throw Error(Phase::kStart, "the job is over");
  }
  if (!info_.machine.id.empty() && info_.machine.id != here.id) {
    throw Refusal(RefusalKind::kWrongHost, Phase::kStart,
                  fmt::format("the job ran on {}, which shares this folder with {}",
                              info_.machine.id, here.id));
  }
  if (!ConnectToAgent(folder_.path())) LaunchAgain(folder_, info_, host_);
  std::error_code error;
  std::filesystem::remove(folder_.orphaned(),
                          error);  // else it would be told of this agent's end, too
  WriteToStdout(Answer(type::kOk, message.id, {{"why", *why}}));
}

void FolderServer::Sweep(const Message& message) const {
  if (before_sweep_) before_sweep_(message.body.value("force", false));
  const auto census =
      EndSlotProcesses(folder_, info_, {getpid()}, SystemClock().Now() + kSweepLimit);
  LeaveFolder(folder_);
  WriteToStdout(Answer(type::kOk, message.id, census));
}

}  // namespace tfdist::agent
