#include "agent/member/member.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/hash.h"
#include "base/log.h"
#include "base/monotonic.h"

namespace tfdist::agent {
namespace {

constexpr std::chrono::milliseconds kSoon{2};

uint64_t RandomNumber() { return std::stoull(RandomHex(7), nullptr, 16); }

}  // namespace

Member::Member(EventLoop& loop, FileThread& files, HostTasks& tasks,
               std::function<protocol::Census()> take_census, Options options, Handlers handlers)
    : files_(files),
      tasks_(tasks),
      take_census_(std::move(take_census)),
      handlers_(std::move(handlers)),
      options_(std::move(options)),
      incarnation_(RandomNumber()),
      last_timer_(SystemClock().Now()),
      timer_(loop, [this] { OnTimer(); }),
      report_soon_(loop, [this] { Report(); }) {}

void Member::SetUplink(std::unique_ptr<Uplink> uplink) {
  uplink_ = std::move(uplink);
  contacted_ = false;
  beat_heard_.reset();
  heard_ = last_timer_ = SystemClock().Now();
  timer_.Start(kReportInterval);
  ReportSoon();
}

// --- from the coordinator ---

void Member::OnBeat(const Beat& beat) {
  Heard();
  beat_ = beat;
  beat_heard_ = heard_;
  // Asks for the newer order by saying on which this slot rests.
  if (beat.order != order_.number) ReportSoon();
}

void Member::OnOrder(const Order& order) {
  Heard();
  if (order.number <= order_.number) return;
  order_ = order;
  order_.goal = std::max(order_.goal, sweep_goal_);
  if (order_.goal == Goal::kRun) census_.reset();
  if (!std::exchange(options_.committed, true)) handlers_.on_committed();
  tasks_.Obey(order_);
  MaybeTakeCensus();
  ReportSoon();
}

void Member::Heard() {
  heard_ = SystemClock().Now();
  if (!std::exchange(contacted_, true)) handlers_.on_first_contact();
}

TimePoint::duration Member::silence() const {
  const TimePoint now = SystemClock().Now();
  return now - heard_.value_or(now);
}

// --- to the coordinator ---

void Member::OnTasksChanged() {
  MaybeTakeCensus();
  ReportSoon();
}

// Changes come in bursts: one report for all of them.
void Member::ReportSoon() {
  if (uplink_ && !report_soon_.running()) report_soon_.Start(kSoon);
}

void Member::Report(bool leaving) {
  HostReport report;
  report.leaving = leaving;
  report.order = order_.number;
  report.incarnation = incarnation_;
  report.keeper_lost = options_.keeper_lost;
  report.swept = sweep_goal_ != Goal::kRun;
  report.tasks = tasks_.Report();
  report.census = census_;
  report.clock = Echo();
  uplink_->Send(report);
}

std::optional<ClockEcho> Member::Echo() const {
  if (!beat_heard_ || beat_.time_ns == 0) return std::nullopt;
  return ClockEcho{.beat_ns = beat_.time_ns,
                   .heard_ns = Nanoseconds(*beat_heard_),
                   .sent_ns = Nanoseconds(SystemClock().Now()),
                   .wall_ns = WallClockNanoseconds()};
}

void Member::OnTimer() {
  const TimePoint now = SystemClock().Now();
  timer_.Start(kReportInterval);
  MaybeTakeCensus();  // a task may have been given up
  Report();
  if (now - last_timer_ > kOwnPause) heard_ = now;
  last_timer_ = now;
  CheckContact(now);
}

void Member::CheckContact(TimePoint now) {
  const auto silence = now - *heard_;
  if (order_.over && silence > kSilentAfterEnd) return handlers_.on_release();
  if (!options_.committed || sweep_goal_ != Goal::kRun || silence < options_.orphan_timeout) return;
  const std::string why =
      fmt::format("nothing was heard from the coordinator for {} s",
                  std::chrono::duration_cast<std::chrono::seconds>(silence).count());
  Log("{}: ending this host's tasks", why);
  handlers_.on_orphaned(why);
  orphaned_ = true;
  EndTasks(Goal::kStop, [this](const protocol::Census&) { handlers_.on_release(); });
}

// --- the end ---

void Member::Sweep(Goal goal, std::function<void(const protocol::Census&)> done) {
  orphaned_ = false;
  EndTasks(goal, std::move(done));
}

void Member::EndTasks(Goal goal, std::function<void(const protocol::Census&)> done) {
  sweep_goal_ = std::max(sweep_goal_, goal);
  on_swept_.push_back(std::move(done));
  order_.goal = std::max(order_.goal, sweep_goal_);
  tasks_.Obey(order_);
  MaybeTakeCensus();
}

void Member::MaybeTakeCensus() {
  if (order_.goal == Goal::kRun || !tasks_.Quiet()) return;
  // A new question is answered with what is left now.
  const bool stale = census_ && !census_->left.empty() && !on_swept_.empty();
  if (census_ && !stale) return TellSwept();
  if (std::exchange(census_under_way_, true)) return;
  files_.Post([take = take_census_] { return take(); },
              [this](Outcome<protocol::Census>& outcome) {
                census_under_way_ = false;
                if (order_.goal == Goal::kRun) return;  // the tasks start again
                census_ = outcome.Get();
                ReportSoon();
                TellSwept();
              });
}

void Member::Leave() {
  timer_.Stop();
  report_soon_.Stop();
  if (uplink_) Report(true);
}

void Member::TellSwept() {
  for (const auto& done : std::exchange(on_swept_, {})) done(*census_);
}

}  // namespace tfdist::agent
