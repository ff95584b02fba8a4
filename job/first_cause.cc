#include "job/first_cause.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <set>
#include <string_view>
#include <utility>

#include "base/text.h"

namespace tfdist::protocol {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// A host says something each second, and its silence is looked for as often.
constexpr nanoseconds kBeats = std::chrono::seconds(3);

const SlotState& SlotOf(const JobState& state, const TaskPlan& task) {
  return state.slots.at(static_cast<size_t>(state.SeatOf(task)));
}

int64_t ClockError(const JobState& state, const TaskPlan& task) {
  const SlotState& slot = SlotOf(state, task);
  return slot.clock ? slot.clock->error_ns : 0;
}

bool FailedByItself(const TaskState& task) {
  return task.exit && HasFailed(*task.exit) && !task.exit->by_us;
}

// The blamed task; nullptr: there is none.
const TaskPlan* Blamed(const JobState& state) {
  const std::string& name = state.gang ? state.gang->task : state.first_task;
  const bool blames = state.gang || state.result == JobResult::kFailed;
  const auto found = state.tally.index.find(name);
  if (!blames || found == state.tally.index.end()) return nullptr;
  const auto& exit = state.tasks.at(name).exit;
  return exit ? &state.plan.tasks[found->second] : nullptr;
}

// When a host was heard last that is slow or lost.
int64_t HeardNs(const JobState& state, size_t slot) {
  const milliseconds lost_after(state.plan.host_lost_ms);
  const bool is_lost = state.slots.at(slot).state == HostState::kLost;
  return state.slots.at(slot).since_ns -
         nanoseconds(is_lost ? lost_after : SlowAfter(lost_after)).count();
}

// Whether slot 0 hears no other host any more. Its own host's slots need no network.
bool HearsNobody(const JobState& state) {
  std::vector<int64_t> heard_ns;
  for (size_t slot = 1; slot < state.slots.size(); ++slot) {
    if (state.plan.slots[slot].host == state.plan.slots[0].host) continue;
    const HostState seen = state.slots[slot].state;
    if (seen != HostState::kLost && seen != HostState::kSlow) return false;
    heard_ns.push_back(HeardNs(state, slot));
  }
  if (heard_ns.empty()) return false;
  const auto [first, last] = std::ranges::minmax(heard_ns);
  return last - first < kBeats.count();
}

// With a single other host nobody can tell whose network it is.
bool HasOneOtherHost(const JobState& state) {
  std::set<std::string_view> hosts;
  for (const SlotPlan& slot : state.plan.slots) hosts.insert(slot.host);
  return hosts.size() == 2;
}

}  // namespace

std::string WhyFailed(const JobState& state, const TaskPlan& plan) {
  const TaskState& task = state.tasks.at(plan.task);
  const SlotState& slot = SlotOf(state, plan);
  const std::string& host = state.plan.slots.at(static_cast<size_t>(state.SeatOf(plan))).host;
  if (slot.state == HostState::kKeeperLost && task.started_ns <= slot.since_ns) {
    return fmt::format("host {}: {}", host, slot.why);
  }
  const bool was_ended = task.exit->by_us && !HasFailed(*task.exit);
  return fmt::format("{} on {}: {}{}{}", plan.task, host, was_ended ? "ended by tfdist, " : "",
                     Describe(*task.exit),
                     HasSucceeded(task) ? ", while other tasks still need it" : "");
}

std::string WhyLost(const JobState& state, int slot) {
  const std::string& silence = state.slots.at(static_cast<size_t>(slot)).why;
  const std::string& host = state.plan.slots.at(static_cast<size_t>(slot)).host;
  const std::string& first = state.plan.slots.at(0).host;
  if (!HearsNobody(state)) return fmt::format("host {} is lost: {}", host, silence);
  if (HasOneOtherHost(state)) {
    return fmt::format("host {} is lost, or the network of {}: {}", host, first, silence);
  }
  return fmt::format("host {} seems to have lost its network: {} from any other host", first,
                     silence);
}

std::optional<int64_t> SilentSinceNs(const JobState& state, int slot) {
  const auto at = static_cast<size_t>(slot);
  if (state.tally.seated.at(at).empty()) return std::nullopt;
  return HeardNs(state, at) + kBeats.count();
}

bool WasSilentBeforeTheBlamed(const JobState& state, int slot) {
  const TaskPlan* blamed = Blamed(state);
  const auto silent_ns = SilentSinceNs(state, slot);
  if (blamed == nullptr || !silent_ns) return false;
  return state.tasks.at(blamed->task).since_ns > *silent_ns + ClockError(state, *blamed);
}

bool FailedBeforeTheBlamed(const JobState& state, const TaskPlan& task) {
  const TaskState& failed = state.tasks.at(task.task);
  const TaskPlan* blamed = Blamed(state);
  if (blamed == nullptr || blamed == &task || task.may_fail) return false;
  if (state.tasks.at(blamed->task).exit->ended_ns == 0) return false;
  if (!FailedByItself(failed) || failed.exit->ended_ns == 0) return false;
  const int64_t before_ns = state.tasks.at(blamed->task).since_ns - failed.since_ns;
  return before_ns > ClockError(state, task) + ClockError(state, *blamed);
}

std::string WhyItEnded(const JobState& state) {
  const bool is_usual = state.result == JobResult::kSucceeded && state.why == kAllHaveSucceeded;
  return is_usual || state.result == JobResult::kNone ? "" : state.why;
}

std::string WarningWords(const event::Warned& warned) {
  const char* name = sigabbrev_np(warned.signal);
  const auto left =
      std::chrono::round<std::chrono::seconds>(std::chrono::milliseconds(warned.left_ms));
  return fmt::format("all tasks get SIG{}, {} before it", name == nullptr ? "?" : name,
                     DurationText(left));
}

std::vector<std::string> Collateral(const JobState& state) {
  const auto first = state.tasks.find(state.first_task);
  if (state.result != JobResult::kFailed || first == state.tasks.end()) return {};
  std::vector<std::pair<int64_t, std::string>> later;
  for (const auto& [name, task] : state.tasks) {
    const bool is_later = FailedByItself(task) && task.since_ns >= first->second.since_ns;
    if (is_later && name != state.first_task) later.emplace_back(task.since_ns, name);
  }
  std::ranges::sort(later);
  std::vector<std::string> names;
  for (auto& [time, name] : later) names.push_back(std::move(name));
  return names;
}

}  // namespace tfdist::protocol
