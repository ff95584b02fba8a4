#include "cli/find/unheard_hosts.h"

#include <fmt/format.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cli/show/slow_notice.h"

namespace tfdist::cli {
namespace {

// An agent of an earlier version tells nothing of any host.
std::set<int> Unheard(const JobView& view) {
  const protocol::JobState& state = view.state;
  std::set<int> unheard;
  if (view.look.hosts.empty()) return unheard;
  for (const protocol::TaskPlan& plan : state.plan.tasks) {
    const int seat = state.SeatOf(plan);
    const bool is_lost =
        state.slots.at(static_cast<size_t>(seat)).state == protocol::HostState::kLost;
    const bool runs = state.tasks.at(plan.task).phase == protocol::TaskPhase::kRunning;
    if (runs && !is_lost) unheard.insert(seat);
  }
  for (const protocol::HostLook& host : view.look.hosts) unheard.erase(host.slot);
  return unheard;
}

}  // namespace

std::vector<UnheardHost> AskUnheardHosts(const JobRecord& record, const JobView& view) {
  std::vector<int> slots;
  for (const int slot : Unheard(view)) {
    if (static_cast<size_t>(slot) < record.hosts.size()) slots.push_back(slot);
  }
  if (slots.empty()) return {};
  const SlowNotice notice("asking the hosts that do not answer the first one");
  const std::vector<HostsWord> words = AskHosts(record, slots, [] { return true; });
  std::vector<UnheardHost> hosts;
  for (size_t at = 0; at < slots.size(); ++at) {
    if (words[at].word != Word::kHears) hosts.push_back({slots[at], words[at]});
  }
  return hosts;
}

void PrintUnheardHosts(const JobRecord& record, const JobView& view) {
  std::vector<HostsWord> words;
  for (const UnheardHost& host : AskUnheardHosts(record, view)) words.push_back(host.said);
  PrintWords(words, ", asked just now: ");
}

}  // namespace tfdist::cli
