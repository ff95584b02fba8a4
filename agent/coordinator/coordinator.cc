#include "agent/coordinator/coordinator.h"

#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>
#include <random>
#include <set>
#include <utility>

#include "agent/control/curve_socket.h"
#include "wire/file_fetch.h"
#include "wire/refusal.h"

namespace tfdist::agent {
namespace {

using protocol::JobPhase;
using protocol::JobPlan;
using protocol::Json;
using protocol::Message;
using protocol::TaskPlan;

constexpr size_t kLocalSlot = 0;

[[noreturn]] void FailState(Phase phase, std::string why) {
  throw protocol::Refusal(protocol::RefusalKind::kWrongState, phase, std::move(why));
}

[[noreturn]] void FailOtherJob() {
  throw protocol::Refusal(protocol::RefusalKind::kWrongHost, Phase::kCommit,
                          "this is another job's agent");
}

Message ControlMessage(std::string_view type, Json body = Json::object()) {
  return {std::string(type), 0, std::move(body)};
}

// 0.8 to 1.2.
double RandomJitter() {
  static std::minstd_rand generator{randombytes_random()};
  return std::uniform_real_distribution<double>(0.8, 1.2)(generator);
}

}  // namespace

// Messages stay in the process, but wait their turn like any other: no call into a caller.
class Coordinator::LocalUplink : public Uplink {
 public:
  explicit LocalUplink(Coordinator& coordinator) : coordinator_(coordinator) {}

  void Send(const HostReport& report) override {
    coordinator_.loop_.Post(
        [&coordinator = coordinator_, report] { coordinator.OnReport(kLocalSlot, report); });
  }
  // Slot 0's logs are read where they are.
  void SendBulk(Message) override {}
  [[nodiscard]] bool BulkWritable() override { return false; }

 private:
  Coordinator& coordinator_;
};

Coordinator::Coordinator(EventLoop& loop, FileThread& files, zmq::context_t& context,
                         const SlotFolder& folder, const SlotInfo& info, const CurveKeys& keys,
                         int listener, std::function<void()> on_news, OnFileAsk on_file_ask)
    : loop_(loop),
      context_(context),
      info_(info),
      keys_(keys),
      listener_(listener),
      on_news_(std::move(on_news)),
      on_file_ask_(std::move(on_file_ask)),
      log_(files, folder.journal(), folder.reserve(), folder.path() / "events.jsonl.clock", clock_,
           [this] { OnWritten(); }),
      relay_([this](int slot, const Message& message) { return SendBulk(slot, message); }),
      looks_([this](int slot, const Message& message) { return SendBulk(slot, message); }),
      timer_(loop, [this] { OnTimer(); }),
      wake_(loop, [this] { OnDue(); }),
      release_limit_(loop, [this] { FinishRelease(); }) {
  timer_.Start(kBeatInterval);
}

void Coordinator::Open(const std::vector<std::string>& peers) {
  if (open()) FailState(Phase::kControl, "the coordinator has its peers already");
  if (std::set(peers.begin(), peers.end()).size() != peers.size()) {
    throw protocol::Refusal(protocol::RefusalKind::kMalformed, Phase::kControl,
                            "two slots have the same public key");
  }
  orders_.assign(peers.size(), 0);
  left_.assign(peers.size(), false);
  hub_.emplace(loop_, context_, keys_, peers, listener_, Endpoint(info_.address, info_.port),
               Hub::Handlers{
                   .on_report =
                       [this](int slot, const HostReport& report) {
                         OnReport(static_cast<size_t>(slot), report);
                       },
                   .on_bulk = [this](int slot, Message m) { OnBulk(slot, std::move(m)); },
                   .on_bulk_connected = [this](int slot) { relay_.OnConnected(slot); },
               });
  control_.emplace(
      log_.state(), peers.size(), clock_, log_.clock(),
      [this](protocol::event::Body body) { log_.Append(std::move(body)); }, RandomJitter);
  if (committed() && !over()) {
    log_.Append(protocol::event::Host{0, protocol::HostState::kAgentRestarted, info_.damage});
    control_->Begin();
  }
}

// --- requests ---

void Coordinator::Commit(const JobPlan& plan, std::function<void(Outcome<void>&)> done) {
  if (committed()) {
    if (log_.state().plan.job != plan.job) FailOtherJob();
    Outcome<void> already;
    return done(already);
  }
  if (abandoned_) {
    throw protocol::Refusal(protocol::RefusalKind::kEnded, Phase::kCommit,
                            "the job was ended before it began: " + *abandoned_);
  }
  if (control_) control_->Tick();  // if this process was stopped just now, no host is to blame
  CheckPlan(plan);
  if (std::exchange(commit_under_way_, true)) {
    FailState(Phase::kCommit, "the commit is being written already");
  }
  log_.Commit(plan, [this, done = std::move(done)](Outcome<void>& outcome) {
    commit_under_way_ = false;
    done(outcome);
    if (committed()) abandoned_ ? control_->Abandon(*abandoned_) : control_->Begin();
    WakeWhenDue();
  });
}

void Coordinator::CheckPlan(const JobPlan& plan) const {
  if (!control_) FailState(Phase::kCommit, "the coordinator does not know its peers yet");
  if (plan.job != info_.job) FailOtherJob();
  if (plan.slots.size() != control_->slots()) {
    throw Error(Phase::kCommit, fmt::format("the plan has {} slots, the coordinator {} peers",
                                            plan.slots.size(), control_->slots()));
  }
  std::set<std::string_view> names;
  for (const TaskPlan& task : plan.tasks) {
    const bool in_range = task.slot >= 0 && static_cast<size_t>(task.slot) < plan.slots.size();
    if (!in_range || !IsTaskName(task.task) || !names.insert(task.task).second) {
      throw Error(Phase::kCommit, fmt::format("the plan's task '{}' is malformed", task.task));
    }
  }
  for (size_t slot = kLocalSlot + 1; slot < plan.slots.size(); ++slot) {
    if (!control_->InContact(slot) || left_[slot]) {
      throw Error(Phase::kCommit,
                  fmt::format("{} does not report to the coordinator", plan.slots[slot].host));
    }
  }
}

void Coordinator::Stop(const std::string& why, bool force) {
  if (!control_) FailState(Phase::kDown, "the job is not committed yet");
  control_->RequestStop(why, force);
}

std::vector<protocol::OrderedRun> Coordinator::Restart(std::vector<std::string> tasks, bool all) {
  if (!control_) FailState(Phase::kControl, "the job is not committed yet");
  if (all) {
    tasks.clear();
    for (const TaskPlan& task : log_.state().plan.tasks) tasks.push_back(task.task);
  }
  return control_->RequestRestart(tasks);
}

void Coordinator::Abandon(const std::string& why) {
  abandoned_ = why;
  if (control_) control_->Abandon(why);
}

bool Coordinator::committed() const { return log_.state().phase != JobPhase::kNone; }

bool Coordinator::over() const { return log_.state().phase == JobPhase::kEnded; }

std::optional<int> Coordinator::SlotOf(const std::string& task) const {
  const protocol::JobState& state = log_.state();
  const auto found = state.tally.index.find(task);
  if (found == state.tally.index.end()) return std::nullopt;
  return state.SeatOf(state.plan.tasks[found->second]);
}

std::unique_ptr<Uplink> Coordinator::MakeLocalUplink(Uplink::Handlers handlers) {
  local_ = std::move(handlers);
  return std::make_unique<LocalUplink>(*this);
}

// --- events ---

void Coordinator::OnWritten() {
  if (control_) Distribute();
  on_news_();
}

void Coordinator::OnBulk(int slot, Message message) {
  if (message.type == protocol::type::kLooked) return looks_.OnBulk(slot, message);
  if (message.type == protocol::type::kAskFile) return on_file_ask_(slot, message);
  relay_.OnBulk(slot, std::move(message));
}

void Coordinator::OnReport(size_t slot, const HostReport& report) {
  if (!control_) return;
  orders_.at(slot) = report.order;
  if (report.leaving) {
    left_.at(slot) = true;
    return FinishRelease();
  }
  // The first word of an agent is answered at once: the CLI waits for it.
  const bool first = !control_->Heard(slot);
  const bool was_awaited = on_released_ && MayRunOn(slot);
  control_->OnReport(slot, report);
  if (first) SendBeat(slot);
  SendOrder(slot);
  WakeWhenDue();
  // A host that was lost has ended what it ran: its agent gets a moment to go, as the others did.
  if (was_awaited && !MayRunOn(slot)) {
    release_limit_.Start(kReleaseLimit);
    SendReleases();
  }
}

// --- to the slots ---

void Coordinator::OnTimer() {
  timer_.Start(kBeatInterval);
  if (control_) control_->Tick();
  log_.Retry();
  if (log_.full() && committed()) control_->RequestStop("the job's event log is full", false);
  if (control_) WakeWhenDue();
  EndSilentReaders();
  Beat();
  if (!on_released_) return;
  SendReleases();
  FinishRelease();
}

void Coordinator::OnDue() {
  wake_ns_.reset();
  control_->Tick();
  WakeWhenDue();
}

void Coordinator::WakeWhenDue() {
  const auto due_ns = control_->due_ns();
  if (std::exchange(wake_ns_, due_ns) == due_ns) return;
  if (!due_ns) return wake_.Stop();
  const std::chrono::nanoseconds ahead(*due_ns - log_.clock().NowNs());
  // Never early, and never at once: whatever comes of it, the loop does other things as well.
  wake_.Start(std::max(std::chrono::ceil<std::chrono::milliseconds>(ahead), kShortestWait));
}

// Nobody waits for output of a host that does not answer.
void Coordinator::EndSilentReaders() {
  if (!control_ || !committed()) return;
  for (size_t slot = 0; slot < control_->slots(); ++slot) {
    if (!control_->Silent(slot)) continue;
    relay_.OnLost(static_cast<int>(slot),
                  fmt::format("host {} is lost", log_.state().plan.slots.at(slot).host));
  }
}

void Coordinator::Beat() {
  if (!control_) {
    loop_.Post([this] { local_.on_beat({}); });
    return;
  }
  for (size_t slot = 0; slot < control_->slots(); ++slot) SendBeat(slot);
}

void Coordinator::SendBeat(size_t slot) {
  SendControl(slot, ControlMessage(control_type::kBeat,
                                   agent::Beat{control_->OrderNumber(slot), log_.clock().NowNs()}));
}

// Most events change no slot's order. An order that is lost is sent again at the slot's next
// report.
void Coordinator::Distribute() {
  const uint64_t orderly = std::min(log_.saved(), control_->NewestOrder());
  if (orderly <= distributed_) return;
  distributed_ = orderly;
  for (size_t slot = 0; slot < control_->slots(); ++slot) SendOrder(slot);
}

void Coordinator::SendOrder(size_t slot) {
  const uint64_t number = control_->OrderNumber(slot);
  if (number <= orders_[slot] || number > log_.saved()) return;
  SendControl(slot, ControlMessage(control_type::kOrder, control_->OrderFor(slot)));
}

bool Coordinator::SendBulk(int slot, const Message& message) {
  return hub_ && hub_->SendBulk(slot, message);
}

bool Coordinator::SendControl(size_t slot, const Message& message) {
  if (slot != kLocalSlot) return hub_->SendControl(static_cast<int>(slot), message);
  loop_.Post([this, message] {
    if (message.type == control_type::kBeat) local_.on_beat(protocol::Body<agent::Beat>(message));
    if (message.type == control_type::kOrder) local_.on_order(protocol::Body<Order>(message));
  });
  return true;
}

// --- the end ---

void Coordinator::Release(std::function<void()> done) {
  on_released_ = std::move(done);
  release_begun_ = clock_.Now();
  release_limit_.Start(kReleaseLimit);
  SendReleases();
  loop_.Post([this] { FinishRelease(); });
}

void Coordinator::SendReleases() {
  for (size_t slot = 1; control_ && slot < control_->slots(); ++slot) {
    if (!left_[slot] && !MayRunOn(slot)) SendControl(slot, ControlMessage(control_type::kRelease));
  }
}

bool Coordinator::MayRunOn(size_t slot) const {
  const std::chrono::milliseconds orphan_timeout(info_.orphan_timeout_ms);
  return !left_[slot] && control_->MayRunOn(slot, orphan_timeout + kOrphanEnd) &&
         clock_.Now() - release_begun_ < orphan_timeout + kReturnLimit;
}

void Coordinator::FinishRelease() {
  if (!on_released_) return;
  for (size_t slot = 1; control_ && slot < control_->slots(); ++slot) {
    if (MayRunOn(slot)) return;
    if (release_limit_.running() && !left_[slot] && !control_->Silent(slot)) return;
  }
  // The job's end must be on disk: `status` may be asked tomorrow.
  if (log_.unsaved() && clock_.Now() - release_begun_ < kSaveLimit) return;
  release_limit_.Stop();
  std::exchange(on_released_, {})();
}

}  // namespace tfdist::agent
