#include "agent/agent/agent.h"

#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <system_error>
#include <utility>
#include <vector>

#include "agent/census/census.h"
#include "agent/cleanup/retention.h"
#include "agent/control/tcp_address.h"
#include "agent/files/file_store.h"
#include "agent/refusal.h"
#include "agent/slot/leave_folder.h"
#include "base/file.h"
#include "base/log.h"

namespace tfdist::agent {
namespace {

using protocol::Json;

constexpr size_t kMaxConfigBytes = 1024 * 1024;
constexpr std::chrono::seconds kCensusLimit{5};
constexpr std::chrono::milliseconds kUncommittedInterval{200};
constexpr std::chrono::hours kTouchInterval{1};
// Slot 0, for a reader that comes just when the job ends.
constexpr std::chrono::milliseconds kLinger{2000};
// For the last answers to be taken.
constexpr std::chrono::milliseconds kLeaveLimit{1000};
constexpr std::chrono::milliseconds kLeaveInterval{5};

std::function<protocol::Census()> CensusOf(const SlotFolder& folder, const SlotInfo& info) {
  // The keeper is this process's parent; both carry the cookie themselves.
  return [cookie = CookieValue(info.job, info.slot), left = folder.left()] {
    return EndProcesses(cookie, {getpid(), getppid()}, left,
                        std::chrono::steady_clock::now() + kCensusLimit);
  };
}

// The socket that the coordinator listens on knows its port, where slot.json does not say it.
SlotInfo ReadInfo(const KeeperLink& keeper, const SlotFolder& folder) {
  SlotInfo info = ReadOrInferSlotInfo(folder);
  if (info.damage.empty() || info.slot != 0) return info;
  info.address = "::";
  info.port = LocalPort(keeper.listener_fd());
  return info;
}

std::optional<Json> ReadJson(const std::filesystem::path& path) {
  const auto text = ReadFileIfExists(path, kMaxConfigBytes);
  if (!text) return std::nullopt;
  try {
    return Json::parse(*text);
  } catch (const Json::exception& e) {
    throw Error(Phase::kFiles, fmt::format("{} is damaged: {}", path.string(), e.what()));
  }
}

}  // namespace

Agent::Agent(KeeperLink& keeper)
    : keeper_(keeper),
      folder_(keeper.handover().slot_folder),
      info_(ReadInfo(keeper, folder_)),
      keys_(ReadCurveKeys(folder_.key())),
      told_committed_(std::filesystem::exists(folder_.committed())),
      files_(loop_),
      log_sink_(files_),
      tasks_(loop_, files_, keeper_, folder_, info_, [this] { member_.OnTasksChanged(); }),
      coordinator_(MakeCoordinator()),
      log_server_([this](auto... arguments) { return OpenLog(std::move(arguments)...); },
                  {.ready = [this] { return member_.uplink()->BulkWritable(); },
                   .send = [this](const auto& m) { member_.uplink()->SendBulk(m); }}),
      member_(loop_, files_, tasks_, CensusOf(folder_, info_),
              {.committed = told_committed_,
               .keeper_lost = keeper.handover().keeper_lost,
               .orphan_timeout = std::chrono::milliseconds(info_.orphan_timeout_ms)},
              MemberHandlers()),
      dialer_(loop_, [this](const CoordinatorAddress& coordinator) { Connect(coordinator); }),
      deployment_(files_, folder_, info_, tasks_),
      requests_({.files = files_,
                 .folder = folder_,
                 .info = info_,
                 .deployment = deployment_,
                 .dialer = dialer_,
                 .member = member_,
                 .coordinator = coordinator_.get()},
                RequestActions()),
      sessions_(loop_, folder_.path(), MakeHello(),
                [this](const auto& session, const auto& m) { OnMessage(session, m); }),
      farewell_(
          loop_, [this] { return sessions_.HasReaders(); },
          info_.slot == 0 ? kLinger : std::chrono::milliseconds(0),
          [this] { coordinator_ ? coordinator_->Release([this] { Leave(); }) : Leave(); }),
      notes_watch_(loop_, keeper_.notes_fd(), POLLIN, [this](short) { OnKeeper(); }),
      keeper_watch_(loop_, keeper_.keeper_fd(), POLLIN, [this](short) { OnKeeper(); }),
      heard_from_cli_(std::chrono::steady_clock::now()),
      uncommitted_timer_(loop_, [this] { CheckUncommitted(); }),
      touch_timer_(loop_, [this] { TouchFolder(); }),
      leave_timer_(loop_, [this] { StopWhenTaken(); }) {
  Resume();
  uncommitted_timer_.Start(kUncommittedInterval);
  TouchFolder();
  Log("agent of {}", folder_.path().string());
}

std::unique_ptr<Coordinator> Agent::MakeCoordinator() {
  if (info_.slot != 0) return nullptr;
  return std::make_unique<Coordinator>(loop_, files_, context_, folder_, info_, keys_,
                                       keeper_.listener_fd(), [this] { OnNews(); });
}

protocol::Hello Agent::MakeHello() const {
  protocol::Hello hello;
  hello.serving = "agent";
  hello.agent_sha256 = HashFile("/proc/self/exe");
  hello.base = info_.base;
  hello.job = info_.job;
  hello.slot = info_.slot;
  hello.public_key = keys_.public_key;
  return hello;
}

void Agent::Resume() {
  tasks_.Recover(ReadDescription(folder_));
  if (coordinator_) {
    if (const auto peers = ReadJson(folder_.peers())) {
      coordinator_->Open(peers->get<std::vector<std::string>>());
    }
    // The agent before may have been killed between the end of the job and its own.
    loop_.Post([this] { OnNews(); });
    member_.SetUplink(coordinator_->MakeLocalUplink(UplinkHandlers()));
  } else if (const auto coordinator = ReadJson(folder_.coordinator())) {
    Connect(coordinator->get<CoordinatorAddress>());
  }
}

// --- what the parts need of each other ---

Requests::Actions Agent::RequestActions() {
  return {.committed = [this] { return committed(); },
          .contact = [this] { return FindContact(); },
          .read_log = [this](auto... arguments) { return OpenLog(std::move(arguments)...); },
          .remove_folder = [this](auto done) { RemoveFolder(std::move(done)); },
          .leave = [this] { Leave(); }};
}

Member::Handlers Agent::MemberHandlers() {
  return {.on_first_contact = [this] { dialer_.OnContact(); },
          .on_committed = [this] { OnCommitted(); },
          .on_release = [this] { farewell_.Begin(); }};
}

Uplink::Handlers Agent::UplinkHandlers() {
  return {.on_beat = [this](const Beat& beat) { member_.OnBeat(beat); },
          .on_order = [this](const Order& order) { member_.OnOrder(order); },
          .on_release = [this] { member_.OnRelease(); },
          .on_bulk = [this](const protocol::Message& m) { log_server_.OnMessage(m); },
          .on_bulk_writable = [this] { log_server_.Pump(); }};
}

void Agent::Connect(const CoordinatorAddress& coordinator) {
  member_.SetUplink(
      std::make_unique<ZmqUplink>(loop_, context_, keys_, coordinator, UplinkHandlers()));
}

std::unique_ptr<Stream> Agent::OpenLog(uint64_t id, const protocol::ReadLog& request,
                                       LogStream::Sink sink) {
  if (!tasks_.Has(request.task)) {
    throw protocol::Refusal(protocol::RefusalKind::kWrongHost, Phase::kLogs,
                            fmt::format("this host has no task '{}'", request.task));
  }
  LogStream::Source source{.task_folder = folder_.TaskFolder(request.task),
                           .closed = [this, task = request.task] { return tasks_.LogClosed(task); },
                           .over = [this] { return over(); }};
  return std::make_unique<LogStream>(loop_, files_, id, request, std::move(source),
                                     std::move(sink));
}

// --- what happens ---

void Agent::OnMessage(const std::shared_ptr<Session>& session, const protocol::Message& message) {
  // Another job asks: no word of this one's CLI.
  if (message.type != kContactRequest) heard_from_cli_ = std::chrono::steady_clock::now();
  requests_.Handle(session, message);
}

void Agent::OnKeeper() {
  // First: a keeper that is killed takes the tasks along, and must be named as the cause.
  if (keeper_.KeeperGone()) {
    log_sink_.Release();
    Log("the keeper is gone; taking its place");
    keeper_.BecomeKeeper();
  }
  tasks_.OnNotes(keeper_.ReadNotes());
}

void Agent::OnNews() {
  sessions_.PumpStreams();
  const EventLog& log = coordinator_->log();
  if (!coordinator_->over() || log.written() < log.events().size()) return;
  if (std::exchange(name_freed_, true)) return;
  // From now on the job's name is free: readers may keep this agent for a while. On the files'
  // thread, as the lock may lie on a file server.
  files_.Post([fd = keeper_.name_lock_fd()] { flock(fd, LOCK_UN); }, [](Outcome<void>&) {});
  farewell_.Begin();
}

void Agent::OnCommitted() {
  if (std::exchange(told_committed_, true) || coordinator_) return;
  files_.Post([path = folder_.committed()] { ReplaceFile(path, "", 0600); },
              [](Outcome<void>& outcome) { outcome.Get(); });
}

bool Agent::committed() const { return coordinator_ ? coordinator_->committed() : told_committed_; }

bool Agent::over() const { return coordinator_ ? coordinator_->over() : member_.over(); }

Contact Agent::FindContact() const {
  const auto silence =
      committed() ? member_.silence() : std::chrono::steady_clock::now() - heard_from_cli_;
  return {.committed = committed(),
          .over = over(),
          .clear = member_.clear(),
          .attended = sessions_.size() > 1,
          .silence_ms = std::chrono::duration_cast<std::chrono::milliseconds>(silence).count()};
}

// --- the end ---

void Agent::CheckUncommitted() {
  if (committed() || leaving_) return;
  uncommitted_timer_.Start(kUncommittedInterval);
  const auto silence = std::chrono::steady_clock::now() - heard_from_cli_;
  if (silence < std::chrono::milliseconds(info_.uncommitted_limit_ms)) return;
  Log("not committed, and nothing heard: giving up");
  uncommitted_timer_.Stop();
  RemoveFolder([this](const std::string&) { Leave(); });
}

void Agent::TouchFolder() {
  touch_timer_.Start(kTouchInterval);
  files_.Post([path = folder_.path()] { MarkUsed(path); },
              [](Outcome<void>& outcome) { outcome.Get(); });
}

void Agent::RemoveFolder(std::function<void(const std::string& left)> done) {
  files_.Post(
      [folder = folder_] {
        RemoveSlotFolder(folder);
        std::error_code error;
        return std::filesystem::exists(folder.work(), error) ? folder.work().string() : "";
      },
      [done = std::move(done)](Outcome<std::string>& outcome) { done(outcome.Get()); });
}

void Agent::Leave() {
  if (std::exchange(leaving_, true)) return;
  member_.Leave();
  files_.Post([folder = folder_] { LeaveFolder(folder); },
              [this](Outcome<void>&) {
                leave_limit_ = std::chrono::steady_clock::now() + kLeaveLimit;
                StopWhenTaken();
              });
}

void Agent::StopWhenTaken() {
  if (sessions_.HasReaders() && std::chrono::steady_clock::now() < *leave_limit_) {
    return leave_timer_.Start(kLeaveInterval);
  }
  loop_.Stop();
}

}  // namespace tfdist::agent
