#include "agent/coordinator/testing/job_model.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "agent/coordinator/testing/journal_rules.h"
#include "wire/refusal.h"

namespace tfdist::agent {
namespace {

namespace event = protocol::event;
using namespace std::chrono_literals;
using protocol::HostState;
using protocol::JobPhase;
using protocol::JobResult;
using protocol::RestartPolicy;
using protocol::TaskExit;

constexpr int kMostHappenings = 40;
constexpr size_t kMostLate = 8;
// Shorter than what the coordinator takes for a pause of its own.
constexpr auto kPass = 800ms;
constexpr int64_t kHostLostMs = 2'500;
constexpr std::chrono::milliseconds kOrphanTimeout{20'000};
// From any moment on, a job in calm needs fewer rounds than that to its end.
constexpr int kMostRounds = 80;
constexpr int kStillRounds = 5;

struct Weight {
  Happening what;
  int weight;
};

constexpr Weight kWeights[] = {
    {Happening::kReport, 20},     {Happening::kOrder, 20},   {Happening::kLate, 14},
    {Happening::kExit, 9},        {Happening::kKill, 8},     {Happening::kTime, 9},
    {Happening::kSync, 6},        {Happening::kCut, 4},      {Happening::kAgentBack, 4},
    {Happening::kCoordinator, 3}, {Happening::kPowerOff, 1}, {Happening::kKeeperLost, 1},
    {Happening::kRound, 12},      {Happening::kRestart, 2},  {Happening::kDown, 1},
};

constexpr int SumOfWeights() {
  int sum = 0;
  for (const Weight& one : kWeights) sum += one.weight;
  return sum;
}

constexpr RestartPolicy kEveryPolicy[] = {RestartPolicy::kTask, RestartPolicy::kGang,
                                          RestartPolicy::kExitCode, RestartPolicy::kNever};

bool SameOrder(const Order& a, const Order& b) {
  const auto same = [](const TaskOrder& x, const TaskOrder& y) {
    return x.task == y.task && x.run == y.run;
  };
  return a.attempt == b.attempt && a.goal == b.goal && a.over == b.over && a.warned == b.warned &&
         a.addresses == b.addresses && std::ranges::equal(a.tasks, b.tasks, same);
}

}  // namespace

JobModel::JobModel(uint64_t seed) : random_(seed) {
  MakePlan();
  hosts_.resize(plan_.slots.size());
  told_.resize(hosts_.size());
  left_behind_.resize(hosts_.size());
  StartCoordinator();
}

// --- the plan ---

void JobModel::MakePlan() {
  plan_.job = "job";
  const int slots = 1 + static_cast<int>(Any(3));
  const int spares = Chance(40) ? 1 : 0;
  for (int slot = 0; slot < slots + spares; ++slot) {
    plan_.slots.push_back({fmt::format("h{}", slot), fmt::format("a{}", slot), slot >= slots});
  }
  for (int slot = 0; slot < slots; ++slot) {
    AddTask("worker", slot);
    if (Chance(40)) AddTask("ps", slot);
  }
  if (Chance(20)) AddTask("evaluator", slots - 1);
  plan_.on_host_lost = Chance(50) ? protocol::OnHostLost::kWait : protocol::OnHostLost::kFail;
  plan_.host_lost_ms = kHostLostMs;
  plan_.exclusive = Chance(30);
  plan_.orphan_timeout_ms = kOrphanTimeout.count();
  if (Chance(15)) plan_.finish_timeout_ms = 5'000;
  if (!Chance(10)) return;
  plan_.deadline_ms = 20'000;
  plan_.warning_ms = 10'000;
  plan_.warning_signal = 10;
}

void JobModel::AddTask(const std::string& type, int slot) {
  protocol::TaskPlan& task = plan_.tasks.emplace_back();
  task.task = fmt::format("{}:{}", type, slot);
  task.slot = slot;
  task.decides = type == "worker" && Chance(90);
  task.serves = type == "ps";
  task.may_fail = type == "evaluator";
  task.restart.policy = kEveryPolicy[Any(std::size(kEveryPolicy))];
  task.restart.limit = static_cast<int>(Any(4));
  task.restart.window_ms = Chance(50) ? 0 : 10'000;
  task.restart.backoff_ms = Chance(50) ? 100 : 1'000;
}

// --- the coordinator ---

void JobModel::StartCoordinator() {
  state_ = {};
  for (const auto& one : events_) state_.Apply(one);
  // Its host's wall clock jumps.
  job_clock_ = std::make_unique<JobClock>(clock_, static_cast<int64_t>(Any(10'000'000'000)));
  if (!events_.empty()) job_clock_->NotBefore(events_.back().time_ns);
  control_ = std::make_unique<JobControl>(
      state_, hosts_.size(), clock_, *job_clock_,
      [this](event::Body body) { Append(std::move(body)); }, [] { return 1.0; });
  if (events_.empty()) Append(event::Committed{plan_});
  synced_ = std::max<size_t>(synced_, 1);  // nobody has a job before its plan is on disk
  control_->Begin();
}

void JobModel::CrashCoordinator(size_t events) {
  events_.resize(std::clamp(events, synced_, events_.size()));
  StartCoordinator();
}

void JobModel::Append(event::Body body) {
  events_.push_back({events_.size() + 1, job_clock_->NowNs(), std::move(body)});
  state_.Apply(events_.back());
  if (!std::holds_alternative<event::Attempt>(events_.back().body)) return;
  for (size_t slot = 0; slot < hosts_.size(); ++slot) {
    if (state_.slots[slot].state == HostState::kLost) left_behind_[slot] = true;
  }
}

// --- what happens ---

std::string JobModel::Run() {
  const int steps = 1 + static_cast<int>(Any(kMostHappenings));
  for (int i = 0; i < steps && broken_.empty(); ++i) Happen();
  return Calm();
}

std::string JobModel::RunFromPrefix(size_t events) {
  CrashCoordinator(events);
  return Calm();
}

void JobModel::Happen() {
  auto drawn = static_cast<int>(Any(SumOfWeights()));
  for (const Weight& one : kWeights) {
    drawn -= one.weight;
    if (drawn >= 0) continue;
    ++happened_[one.what];
    MakeHappen(one.what);
    break;
  }
  CheckNow();
}

void JobModel::MakeHappen(Happening what) {
  Host& host = AnyHost();
  const bool is_first = &host == &hosts_[0];  // the coordinator lives there
  switch (what) {
    case Happening::kReport:
      return SendReport(Any(hosts_.size()), Chance(30));
    case Happening::kOrder:
      return SendOrder(Any(hosts_.size()), Chance(30));
    case Happening::kLate:
      return DeliverLate();
    case Happening::kExit:
      return EndATask(false);
    case Happening::kKill:
      return EndATask(true);
    case Happening::kCut:
      host.reached = is_first || !host.reached;
      return;
    case Happening::kPowerOff:
      if (is_first) return;
      host.powered = host.reached = false;
      host.tasks.clear();
      return;
    case Happening::kAgentBack:
      return ReplaceAgent(host);
    case Happening::kKeeperLost:
      for (auto& [name, copy] : host.tasks) End(copy, {.signal = 15, .error = {}});
      host.keeper_lost = true;
      return ReplaceAgent(host);
    case Happening::kCoordinator:
      return CrashCoordinator(synced_ + Any(events_.size() - synced_ + 1));
    case Happening::kSync:
      synced_ = events_.size();
      return;
    case Happening::kTime:
      return PassTime(false);
    case Happening::kRound:
      return PassRound(false);
    case Happening::kRestart:
      return AskForRestart();
    case Happening::kDown:
      return control_->RequestStop("down", Chance(50));
  }
}

void JobModel::AskForRestart() {
  if (state_.phase != JobPhase::kRunning && state_.phase != JobPhase::kRestarting) return;
  std::vector<std::string> tasks;
  const bool one = Chance(70);
  const size_t chosen = one ? Any(plan_.tasks.size()) : 0;
  for (size_t task = 0; task < plan_.tasks.size(); ++task) {
    if (!one || task == chosen) tasks.push_back(plan_.tasks[task].task);
  }
  const size_t events = state_.applied;
  try {
    (void)control_->RequestRestart(tasks);
  } catch (const protocol::Refusal&) {
    const auto is_lost = [](const auto& slot) { return slot.state == HostState::kLost; };
    EXPECT_TRUE(std::ranges::any_of(state_.slots, is_lost));
    EXPECT_EQ(state_.applied, events) << "nothing is ended for it";
  }
}

void JobModel::PassTime(bool all_report) {
  const int times = all_report ? 1 : 1 + static_cast<int>(Any(5));
  for (int i = 0; i < times; ++i) {
    clock_.now += kPass;
    EndOrphans();
    for (size_t slot = 0; slot < hosts_.size(); ++slot) {
      if (all_report || Chance(90)) SendReport(slot, false);
    }
    control_->Tick();
  }
}

// An agent that hears nothing for long ends its tasks and itself.
void JobModel::EndOrphans() {
  for (Host& host : hosts_) {
    if (host.reached) host.heard = clock_.now;
    if (clock_.now - host.heard < kOrphanTimeout) continue;
    host.powered = false;
    host.tasks.clear();
  }
}

// --- messages ---

void JobModel::SendReport(size_t slot, bool late) {
  if (!hosts_[slot].powered) return;
  BeginOrderedRuns(hosts_[slot]);  // one may have waited for the end of the run before
  MaybeTakeCensus(hosts_[slot]);
  Letter letter;
  letter.slot = slot;
  letter.report = MakeReport(hosts_[slot]);
  Send(std::move(letter), late);
}

// Only what rests on events that are on disk goes out.
void JobModel::SendOrder(size_t slot, bool late) {
  if (control_->OrderNumber(slot) > synced_ && Chance(60)) synced_ = events_.size();
  if (control_->OrderNumber(slot) == 0 || control_->OrderNumber(slot) > synced_) return;
  Letter letter;
  letter.slot = slot;
  letter.connection = hosts_[slot].incarnation;
  letter.order = control_->OrderFor(slot);
  CheckTold(slot, *letter.order);
  Send(std::move(letter), late);
}

void JobModel::Send(Letter letter, bool late) {
  if (!late) return Arrive(letter);
  if (late_.size() < kMostLate) late_.push_back(std::move(letter));
}

void JobModel::Arrive(const Letter& letter) {
  Host& host = hosts_[letter.slot];
  if (!host.powered || !host.reached) return;
  if (letter.report) {
    control_->OnReport(letter.slot, *letter.report);
  } else if (letter.connection == host.incarnation) {
    Obey(host, *letter.order);
  }
}

void JobModel::DeliverLate() {
  if (late_.empty()) return;
  const size_t at = Any(late_.size());
  const Letter letter = late_[at];
  const bool comes_again = Chance(30);
  if (!comes_again) late_.erase(late_.begin() + static_cast<ptrdiff_t>(at));
  if (comes_again || Chance(80)) Arrive(letter);
}

// --- hosts: what Member and HostTasks do, without processes ---

void JobModel::EndATask(bool kill) {
  Host& host = AnyHost();
  if (host.tasks.empty()) return;
  Copy& copy =
      std::next(host.tasks.begin(), static_cast<ptrdiff_t>(Any(host.tasks.size())))->second;
  if (kill) return End(copy, {.signal = 9, .error = {}});
  constexpr int kCodes[] = {0, 0, 1, 137};
  TaskExit exit;
  exit.code = kCodes[Any(std::size(kCodes))];
  if (Chance(5)) exit = {.error = "no such file", .permanent = true};
  End(copy, exit);
}

void JobModel::End(Copy& copy, const TaskExit& exit) {
  if (!copy.working) return;
  copy.working = false;
  copy.exit = exit;
  copy.exit->by_us = copy.told_to_stop;
}

void JobModel::ReplaceAgent(Host& host) {
  host.incarnation = random_();
  host.order = {};
  host.census.reset();
}

void JobModel::Obey(Host& host, const Order& order) {
  if (order.number <= host.order.number) return;
  host.order = order;
  if (order.goal == Goal::kRun) host.census.reset();
  BeginOrderedRuns(host);
  for (auto& [name, copy] : host.tasks) {
    const auto wanted = std::ranges::find(order.tasks, name, &TaskOrder::task);
    const bool replaced = wanted != order.tasks.end() && copy.run < wanted->run;
    const bool old = copy.attempt < order.attempt || replaced;
    copy.told_to_stop |= order.goal != Goal::kRun || old;
  }
}

void JobModel::BeginOrderedRuns(Host& host) {
  if (host.order.goal != Goal::kRun) return;
  for (const TaskOrder& wanted : host.order.tasks) BeginRun(host, wanted);
}

void JobModel::BeginRun(Host& host, const TaskOrder& wanted) {
  Copy& copy = host.tasks[wanted.task];
  if (copy.working) return;
  if (std::pair(copy.attempt, copy.run) >= std::pair(host.order.attempt, wanted.run)) return;
  copy = {};
  copy.attempt = host.order.attempt;
  copy.run = wanted.run;
  copy.working = true;
}

bool JobModel::Quiet(const Host& host) {
  return std::ranges::none_of(host.tasks, [](const auto& one) { return one.second.working; });
}

void JobModel::MaybeTakeCensus(Host& host) {
  if (host.order.goal == Goal::kRun || host.census || !Quiet(host)) return;
  host.census = protocol::Census{};
  if (Chance(2)) host.census->left.emplace_back("pid 7");
}

HostReport JobModel::MakeReport(const Host& host) const {
  HostReport report;
  report.order = host.order.number;
  report.incarnation = host.incarnation;
  if (host.keeper_lost) report.keeper_lost = "its keeper was killed";
  report.census = host.census;
  for (const auto& [name, copy] : host.tasks) {
    TaskReport& one = report.tasks.emplace_back();
    one.task = name;
    one.attempt = copy.attempt;
    one.run = copy.run;
    one.pid = 7;
    one.exit = copy.exit;
    one.done = !copy.working;
  }
  return report;
}

// --- calm ---

std::string JobModel::Calm() {
  for (Host& host : hosts_) host.reached = host.powered && (host.reached || Chance(70));
  while (!late_.empty()) DeliverLate();
  int still = 0;
  for (int round = 0; round < kMostRounds && broken_.empty(); ++round) {
    const bool over = state_.phase == JobPhase::kEnded;
    if (over && std::ranges::all_of(hosts_, [](const Host& h) { return !h.reached || Quiet(h); })) {
      break;
    }
    const size_t events = events_.size();
    PassRound(true);
    still = events == events_.size() ? still + 1 : 0;
    if (still < kStillRounds || !control_->due_ns()) continue;
    clock_.now +=
        std::chrono::nanoseconds(std::max<int64_t>(*control_->due_ns() - job_clock_->NowNs(), 0));
    EndOrphans();
    control_->Tick();
  }
  CheckEnd();
  return broken_;
}

void JobModel::PassRound(bool work_ends) {
  PassTime(true);
  synced_ = events_.size();
  for (size_t slot = 0; slot < hosts_.size(); ++slot) SendOrder(slot, false);
  for (Host& host : hosts_) EndWork(host, work_ends);
  CheckNow();
}

// What was told to end ends. With `all`, so does what the end of the job waits for.
void JobModel::EndWork(Host& host, bool all) {
  for (auto& [name, copy] : host.tasks) {
    const bool decides = plan_.tasks[state_.tally.IndexOf(name)].decides;
    TaskExit exit;
    if (copy.told_to_stop && Chance(50)) exit.signal = 15;
    const bool needed = all && (decides || !state_.tally.any_decides);
    if (copy.told_to_stop || needed) End(copy, exit);
  }
}

// --- the rules ---

void JobModel::Break(const std::string& rule) {
  if (broken_.empty()) broken_ = rule;
}

void JobModel::CheckNow() {
  std::set<std::string_view> running;
  for (size_t slot = 0; slot < hosts_.size(); ++slot) {
    for (const auto& [name, copy] : hosts_[slot].tasks) {
      if (!copy.working) continue;
      const bool current = copy.attempt == state_.attempt;
      const bool counts = current || plan_.exclusive;
      if (counts && !running.insert(name).second) Break(name + " runs twice");
      if (copy.attempt > state_.attempt) Break(name + " runs in an attempt of the future");
      if (!current && state_.phase == JobPhase::kRunning && !left_behind_[slot]) {
        Break(name + " of an older attempt runs beside the newer one");
      }
    }
  }
}

// Whichever coordinator says it: under one number a slot is told one thing, and no older one later.
void JobModel::CheckTold(size_t slot, const Order& order) {
  Order& told = told_[slot];
  if (order.number < told.number) Break("a slot is sent an older order than before");
  if (order.number == told.number && !SameOrder(order, told)) {
    Break("a slot is told something else under one number");
  }
  told = order;
}

void JobModel::CheckEnd() {
  if (state_.phase != JobPhase::kEnded) return Break("the job waits for ever");
  for (size_t slot = 0; slot < hosts_.size(); ++slot) {
    const bool named = std::ranges::count(state_.unreachable, static_cast<int>(slot)) > 0;
    if (hosts_[slot].reached && !Quiet(hosts_[slot])) Break("tasks run on after the end");
    if (!Quiet(hosts_[slot]) && !named) Break("tasks run on on a host that is not named");
  }
  if (Judge(state_, job_clock_->NowNs())) Break("a decision is due after the end");
  for (const auto& plan : plan_.tasks) {
    const auto& task = state_.tasks.at(plan.task);
    const bool good = task.exit && !HasFailed(*task.exit) && !task.exit->by_us;
    if (state_.result == JobResult::kSucceeded && plan.decides && !good) {
      Break("a success without " + plan.task);
    }
  }
  if (broken_.empty()) broken_ = BrokenRule(events_, state_);
}

}  // namespace tfdist::agent
