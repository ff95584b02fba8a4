#include "agent/coordinator/testing/job_life.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "agent/coordinator/testing/journal_rules.h"

namespace tfdist::agent {
namespace {

namespace event = protocol::event;
using namespace std::chrono_literals;
using protocol::HostState;
using protocol::JobPhase;
using protocol::JobResult;
using protocol::RestartPolicy;

constexpr auto kStep = 100ms;
constexpr auto kChaos = 60s;
constexpr auto kCalm = 20min;
constexpr auto kLastWord = 3min;
// Hosts' clocks are days apart. Messages take 5 s at most, and a coordinator's clock jumps by 10 s: what its
// successor makes of a beat of before may be wrong by half of that.
constexpr int64_t kFarthestNs = 864'000'000'000'000;
constexpr int64_t kClockErrorNs = 15'000'000'000;
constexpr int64_t kShortOrphanTimeoutMs = 22'000;
constexpr auto kLongestEnd = 2000ms;  // of a task that was told to

constexpr RestartPolicy kPolicies[] = {RestartPolicy::kTask, RestartPolicy::kGang,
                                       RestartPolicy::kExitCode, RestartPolicy::kNever};

}  // namespace

JobLife::JobLife(uint64_t seed) : random_(seed) {
  MakePlan();
  hosts_.resize(plan_.slots.size());
  rests_on_.resize(hosts_.size());
  for (Host& host : hosts_) {
    host.ahead_ns = static_cast<int64_t>(random_() % (2 * kFarthestNs));
  }
  StartCoordinator();
}

bool JobLife::Chance(double probability) {
  return std::uniform_real_distribution<double>(0, 1)(random_) < probability;
}

JobLife::Millis JobLife::Between(int least, int most) {
  return Millis(std::uniform_int_distribution<int>(least, most)(random_));
}

void JobLife::MakePlan() {
  plan_.job = "job";
  // Small jobs mostly: their faults meet more often.
  const int most = Chance(0.05) ? 64 : 8;
  const auto slots = static_cast<int>(Between(2, most).count());
  const auto spares = static_cast<int>(Between(0, 2).count());
  for (int slot = 0; slot < slots + spares; ++slot) {
    plan_.slots.push_back(
        {fmt::format("h{}", slot), fmt::format("10.0.0.{}", slot), slot >= slots});
  }
  const bool servers_everywhere = Chance(0.7);
  for (int slot = 0; slot < slots; ++slot) {
    if (servers_everywhere || slot == 0 || Chance(0.5)) AddServer(slot);
    AddWorker(slot);
  }
  if (Chance(0.3)) AddEvaluator(static_cast<int>(random_() % static_cast<uint64_t>(slots)));
  if (Chance(0.1)) plan_.finish_timeout_ms = 60'000;
  plan_.on_host_lost = Chance(0.5) ? protocol::OnHostLost::kWait : protocol::OnHostLost::kFail;
  plan_.exclusive = Chance(0.3);
  if (plan_.exclusive) plan_.orphan_timeout_ms = kShortOrphanTimeoutMs;
  plan_.longest_grace_ms = kLongestEnd.count();
}

RestartPolicy JobLife::AnyPolicy() { return kPolicies[random_() % std::size(kPolicies)]; }

protocol::TaskPlan& JobLife::AddTask(const char* type, int slot) {
  protocol::TaskPlan& task = plan_.tasks.emplace_back();
  task.task = fmt::format("{}:{}", type, slot);
  task.slot = slot;
  task.restart.limit = 50;
  if (Chance(0.2)) task.restart.worked_after_ms = 2000;
  return task;
}

void JobLife::AddServer(int slot) {
  protocol::TaskPlan& server = AddTask("ps", slot);
  server.serves = true;
  server.restart.policy = Chance(0.8) ? RestartPolicy::kGang : AnyPolicy();
}

void JobLife::AddWorker(int slot) {
  protocol::TaskPlan& worker = AddTask("worker", slot);
  worker.decides = true;
  worker.restart.policy = Chance(0.8) ? RestartPolicy::kTask : AnyPolicy();
}

// It never decides the job, and is often given up.
void JobLife::AddEvaluator(int slot) {
  protocol::TaskPlan& evaluator = AddTask("evaluator", slot);
  evaluator.may_fail = true;
  evaluator.restart.policy = Chance(0.8) ? RestartPolicy::kTask : AnyPolicy();
  evaluator.restart.limit = static_cast<int>(Between(0, 3).count());
  evaluator.restart.window_ms = Chance(0.5) ? 0 : 10'000;
}

// --- the coordinator ---

void JobLife::StartCoordinator() {
  state_ = {};
  for (const auto& one : events_) state_.Apply(one);
  // Wall clocks of hosts jump.
  job_clock_ = std::make_unique<JobClock>(clock_, static_cast<int64_t>(random_() % 10'000'000'000));
  if (!events_.empty()) job_clock_->NotBefore(events_.back().time_ns);
  control_ = std::make_unique<JobControl>(
      state_, hosts_.size(), clock_, *job_clock_,
      [this](event::Body body) { Append(std::move(body)); }, [] { return 1.0; });
  std::fill(rests_on_.begin(), rests_on_.end(), 0);
  if (events_.empty()) Append(event::Committed{plan_});
  control_->Begin();
}

// What was not written is forgotten; nobody has been told of it.
void JobLife::CrashCoordinator() {
  events_.resize(std::max<size_t>(written_, 1));
  StartCoordinator();
}

void JobLife::Append(event::Body body) {
  events_.push_back({events_.size() + 1, job_clock_->NowNs(), std::move(body)});
  state_.Apply(events_.back());
  if (const auto* exited = std::get_if<event::TaskExited>(&events_.back().body)) CheckTime(*exited);
  if (!std::holds_alternative<event::Attempt>(events_.back().body)) return;
  for (size_t slot = 0; slot < hosts_.size(); ++slot) {
    if (state_.slots[slot].state == HostState::kLost) left_behind_.insert(slot);
  }
}

// Each host tells the end of its tasks on its own clock.
void JobLife::CheckTime(const event::TaskExited& exited) {
  const auto& plan = plan_.tasks[state_.tally.IndexOf(exited.task)];
  const auto& tasks = hosts_[static_cast<size_t>(state_.SeatOf(plan))].tasks;
  const auto found = tasks.find(exited.task);
  if (exited.exit.ended_ns == 0 || found == tasks.end()) return;
  const Task& task = found->second;
  if (std::pair(task.attempt, task.run) != std::pair(exited.attempt, exited.run)) return;
  ++dated_;
  const auto ago = std::chrono::nanoseconds(clock_.now - task.ended).count();
  const int64_t wrong_ns = exited.exit.ended_ns - (job_clock_->NowNs() - ago);
  if (std::abs(wrong_ns) > kClockErrorNs) broken_ = exited.task + " ended at another time";
}

// --- time ---

LifeStory JobLife::Run() {
  const TimePoint begin = clock_.now;
  while (clock_.now - begin < kChaos) Step(true);
  for (Host& host : hosts_) host.cut = false;
  lossy_ = false;
  while (clock_.now - begin < kChaos + kCalm && state_.phase != JobPhase::kEnded) Step(false);
  if (state_.phase != JobPhase::kEnded) {
    // A job that waits for a host that never comes back goes on until the user ends it.
    const bool waits = plan_.on_host_lost == protocol::OnHostLost::kWait &&
                       std::ranges::any_of(hosts_, [](const Host& h) { return !h.powered; });
    if (!waits) broken_ = "the job neither goes on nor ends";
    control_->RequestStop("down", false);
    const TimePoint asked = clock_.now;
    while (clock_.now - asked < kLastWord && state_.phase != JobPhase::kEnded) Step(false);
  }
  CheckEnd();
  CheckReplay();
  return {broken_, state_, events_, dated_};
}

void JobLife::Step(bool chaos) {
  clock_.now += kStep;
  if (chaos) Break();
  Deliver();
  for (size_t slot = 0; slot < hosts_.size(); ++slot) StepHost(slot);
  control_->Tick();
  // The disk lags behind; orders go out once they are on it.
  for (size_t slot = 0; slot < hosts_.size(); ++slot) {
    const uint64_t number = control_->OrderNumber(slot);
    if (number > rests_on_[slot] && number <= written_ && Chance(0.3)) {
      Letter letter;
      letter.slot = slot;
      letter.connection = hosts_[slot].incarnation;
      letter.order = control_->OrderFor(slot);
      Send(std::move(letter));
    }
  }
  if (Chance(0.3)) written_ = events_.size();
  if (broken_.empty()) CheckRules();
  if (broken_.empty()) CheckTally();
}

void JobLife::Break() {
  if (Chance(0.005)) CrashCoordinator();
  if (Chance(0.0005)) control_->RequestStop("down", Chance(0.5));
  Host& host = hosts_[random_() % hosts_.size()];
  if (Chance(0.02)) host.agent_back_at = clock_.now + Between(50, 3000);
  if (Chance(0.01)) host.cut = !host.cut;
  const bool is_first = &host == &hosts_[0];  // the coordinator lives there
  if (is_first) host.cut = false;
  if (!is_first && Chance(0.001)) host.powered = false;
  if (host.tasks.empty() || !Chance(0.03)) return;
  Task& task =
      std::next(host.tasks.begin(), static_cast<ptrdiff_t>(random_() % host.tasks.size()))->second;
  if (!task.working) return;
  task.ends_at = clock_.now;
  task.ends_with = {};
  if (Chance(0.5)) task.ends_with.signal = 9;
  if (task.ends_with.signal == 0) task.ends_with.code = Chance(0.5) ? 137 : Chance(0.8) ? 1 : 0;
}

// --- the network ---

void JobLife::Send(Letter letter) {
  if (lossy_ && Chance(0.05)) return;
  letter.at = clock_.now + (lossy_ && Chance(0.1) ? Between(0, 5000) : Between(0, 100));
  network_.push_back(letter);
  if (!lossy_ || !Chance(0.05)) return;
  letter.at += Between(0, 5000);
  network_.push_back(std::move(letter));
}

void JobLife::Deliver() {
  std::deque<Letter> due;
  std::deque<Letter> later;
  for (Letter& letter : network_) {
    (letter.at <= clock_.now ? due : later).push_back(std::move(letter));
  }
  network_ = std::move(later);
  std::shuffle(due.begin(), due.end(), random_);
  for (const Letter& letter : due) {
    Host& host = hosts_[letter.slot];
    if (host.cut) continue;
    if (letter.report) {
      rests_on_[letter.slot] = letter.report->order;
      control_->OnReport(letter.slot, *letter.report);
      if (Chance(0.3)) SendBeat(letter.slot);
    } else if (host.powered && !host.agent_back_at && letter.connection == host.incarnation) {
      if (letter.beat_ns) {
        host.echo = {.beat_ns = *letter.beat_ns, .heard_ns = TimeOn(host, clock_.now)};
      } else {
        OnOrder(host, *letter.order);
      }
    }
  }
}

void JobLife::SendBeat(size_t slot) {
  Letter letter;
  letter.slot = slot;
  letter.connection = hosts_[slot].incarnation;
  letter.beat_ns = job_clock_->NowNs();
  Send(std::move(letter));
}

// --- a host ---

int64_t JobLife::TimeOn(const Host& host, TimePoint time) const {
  return std::chrono::nanoseconds(time.time_since_epoch()).count() + host.ahead_ns;
}

void JobLife::StepHost(size_t slot) {
  Host& host = hosts_[slot];
  if (!host.powered) {
    host.tasks.clear();
    return;
  }
  EndTasks(host);
  EndIfOrphaned(host);
  if (host.agent_back_at) {
    if (clock_.now < *host.agent_back_at) return;
    // Another agent: it knows what the files tell, and no order yet.
    host.agent_back_at.reset();
    host.incarnation = random_();
    host.order = {};
    host.census.reset();
    host.echo = {};
  }
  Act(host);
  if (host.order.goal != Goal::kRun && Quiet(host) && !host.census) {
    host.census = protocol::Census{};
    host.changed = true;
  }
  if (!host.changed && clock_.now < host.report_at) return;
  host.changed = false;
  host.report_at = clock_.now + 1s;
  Letter letter;
  letter.slot = slot;
  letter.report = MakeReport(host);
  Send(std::move(letter));
}

void JobLife::OnOrder(Host& host, const Order& order) {
  if (order.number <= host.order.number) return;
  host.order = order;
  host.changed = true;
  if (order.goal == Goal::kRun) host.census.reset();
  Act(host);
}

void JobLife::Act(Host& host) {
  for (const TaskOrder& wanted : host.order.tasks) {
    if (host.order.goal == Goal::kRun) BeginRun(host, wanted);
  }
  for (auto& [name, task] : host.tasks) {
    const bool old = task.attempt < host.order.attempt;
    if (!task.working || (host.order.goal == Goal::kRun && !old)) continue;
    if (std::exchange(task.told_to_stop, true)) continue;
    task.ends_at = clock_.now + Between(0, kLongestEnd.count());
    task.ends_with = {.signal = 15, .by_us = true, .error = {}};
    // Many programs catch SIGTERM, save what they have and end with 0.
    if (task.minds_its_end) task.ends_with.signal = 0;
  }
}

void JobLife::BeginRun(Host& host, const TaskOrder& wanted) {
  Task& task = host.tasks[wanted.task];
  if (task.working) return;
  if (std::pair(task.attempt, task.run) >= std::pair(host.order.attempt, wanted.run)) return;
  task = {};
  task.attempt = host.order.attempt;
  task.run = wanted.run;
  task.working = true;
  task.minds_its_end = Chance(0.3);
  host.changed = true;
  if (wanted.task.starts_with("worker")) task.ends_at = clock_.now + Between(3000, 9000);
}

void JobLife::EndTasks(Host& host) {
  for (auto& [name, task] : host.tasks) {
    if (!task.working || !task.ends_at || clock_.now < *task.ends_at) continue;
    task.working = false;
    task.exit = task.ends_with;
    task.exit->ended_ns = TimeOn(host, clock_.now);
    task.ended = clock_.now;
    host.changed = true;
  }
}

// An agent that hears nothing for long ends its tasks, and then itself.
void JobLife::EndIfOrphaned(Host& host) {
  if (!host.cut) host.heard = clock_.now;
  const auto silence = clock_.now - host.heard;
  if (silence < Millis(plan_.orphan_timeout_ms)) return;
  if (silence >= Millis(plan_.orphan_timeout_ms) + kLongestEnd) host.powered = false;
  for (auto& [name, task] : host.tasks) {
    if (!task.working || std::exchange(task.told_to_stop, true)) continue;
    task.ends_at = clock_.now + Between(0, kLongestEnd.count());
    task.ends_with = {.signal = 15, .by_us = true, .error = {}};
  }
}

bool JobLife::Quiet(const Host& host) const {
  return std::ranges::none_of(host.tasks, [](const auto& one) { return one.second.working; });
}

HostReport JobLife::MakeReport(const Host& host) const {
  HostReport report;
  report.order = host.order.number;
  report.incarnation = host.incarnation;
  report.census = host.census;
  if (host.echo.beat_ns != 0) {
    report.clock = host.echo;
    report.clock->sent_ns = report.clock->wall_ns = TimeOn(host, clock_.now);
  }
  for (const auto& [name, task] : host.tasks) {
    TaskReport one;
    one.task = name;
    one.attempt = task.attempt;
    one.run = task.run;
    one.pid = 7;
    one.exit = task.exit;
    one.done = !task.working;
    report.tasks.push_back(std::move(one));
  }
  return report;
}

// --- the rules ---

// One copy of a task at most. What an older attempt left runs only where a host was lost.
void JobLife::CheckRules() {
  std::set<std::string> running;
  for (size_t slot = 0; slot < hosts_.size(); ++slot) {
    for (const auto& [name, task] : hosts_[slot].tasks) {
      if (!task.working) continue;
      const bool current = task.attempt == state_.attempt;
      const bool counts = current || plan_.exclusive;
      if (counts && !running.insert(name).second) broken_ = name + " runs twice";
      if (task.attempt > state_.attempt) broken_ = name + " runs in an attempt of the future";
      if (!current && state_.phase == JobPhase::kRunning && !left_behind_.contains(slot)) {
        broken_ = name + " of an older attempt runs beside the newer one";
      }
    }
  }
}

// What is kept up with each event is what a look at everything says; and nothing is overlooked because
// nothing seemed to have changed.
void JobLife::CheckTally() {
  if (Judge(state_, job_clock_->NowNs())) broken_ = "a decision is due and was not taken";
  if (std::exchange(counted_, state_.applied) == state_.applied) return;
  if (state_.tally != state_.CountAnew()) broken_ = "the tally is not what the state says";
}

// What was decided is never decided differently: every prefix of the journal leads to one state,
// however often it is read.
void JobLife::CheckReplay() {
  if (broken_.empty()) broken_ = BrokenRule(events_, state_);
}

void JobLife::CheckEnd() {
  if (!broken_.empty()) return;
  if (state_.phase != JobPhase::kEnded) broken_ = "the job does not end";
  for (size_t slot = 0; slot < hosts_.size(); ++slot) {
    const bool unreachable = std::ranges::count(state_.unreachable, static_cast<int>(slot)) > 0;
    if (!Quiet(hosts_[slot]) && !unreachable) broken_ = "tasks run on after the end";
  }
  const bool succeeded = state_.result == JobResult::kSucceeded;
  for (const auto& plan : plan_.tasks) {
    const auto& task = state_.tasks.at(plan.task);
    const bool good = task.exit && !HasFailed(*task.exit);
    if (succeeded && plan.decides && !good) broken_ = "a success without " + plan.task;
  }
}

}  // namespace tfdist::agent
