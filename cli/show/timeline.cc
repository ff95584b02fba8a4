#include "cli/show/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "cli/render/table.h"

namespace tfdist::cli {
namespace {

using std::chrono::nanoseconds;
using Rows = std::vector<std::vector<std::string>>;

constexpr size_t kShownHosts = 3;

std::string Milliseconds(nanoseconds time) {
  return fmt::format("{:.1f}", static_cast<double>(time.count()) / 1e6);
}

std::string Seconds(nanoseconds time) {
  return fmt::format("{:.2f} s", static_cast<double>(time.count()) / 1e9);
}

nanoseconds In(const HostTimes& host, std::string_view step) {
  const auto found = std::ranges::find_if(
      host.spent, [&](const StepTimes::Spent& one) { return step == one.step; });
  return found == host.spent.end() ? nanoseconds(0) : found->time;
}

nanoseconds Total(const HostTimes& host) {
  nanoseconds total{0};
  for (const StepTimes::Spent& one : host.spent) total += one.time;
  return total;
}

template <typename Of>
nanoseconds Median(const std::vector<HostTimes>& hosts, Of of) {
  std::vector<nanoseconds> times;
  for (const HostTimes& host : hosts) times.push_back(of(host));
  const auto middle = times.begin() + static_cast<ptrdiff_t>((times.size() - 1) / 2);
  std::ranges::nth_element(times, middle);
  return *middle;
}

// Of all hosts, in the order in which they take them.
std::vector<std::string_view> StepsOf(const std::vector<HostTimes>& hosts) {
  std::vector<std::string_view> steps;
  for (const HostTimes& host : hosts) {
    for (size_t i = 0; i < host.spent.size(); ++i) {
      const std::string_view step = host.spent[i].step;
      if (std::ranges::find(steps, step) != steps.end()) continue;
      const auto before = i == 0 ? steps.end() : std::ranges::find(steps, host.spent[i - 1].step);
      steps.insert(before == steps.end() ? before : before + 1, step);
    }
  }
  return steps;
}

// `shown`: those of `hosts` that have a column.
template <typename Of>
void AddRow(std::string_view step, const std::vector<HostTimes>& hosts,
            const std::vector<HostTimes>& shown, Of of, Rows& rows) {
  rows.push_back({std::string(step), Milliseconds(Median(hosts, of))});
  for (const HostTimes& host : shown) rows.back().push_back(Milliseconds(of(host)));
}

std::string Slowest(const std::vector<HostTimes>& hosts,
                    const std::vector<std::string_view>& steps) {
  const HostTimes& slowest = hosts.front();
  std::string_view worst = steps.front();
  nanoseconds most = nanoseconds::min();
  for (const std::string_view step : steps) {
    const nanoseconds behind =
        In(slowest, step) - Median(hosts, [&](const HostTimes& host) { return In(host, step); });
    if (behind > most) worst = step, most = behind;
  }
  if (hosts.size() < 2) return {};
  return fmt::format("slowest: {}, {}; {} of it more than the median host in: {}\n", slowest.host,
                     Seconds(Total(slowest)), Seconds(most), worst);
}

}  // namespace

std::string TimelineText(std::vector<HostTimes> hosts, nanoseconds whole) {
  const std::vector<std::string_view> steps = StepsOf(hosts);
  if (steps.empty()) return {};
  std::ranges::stable_sort(hosts, std::ranges::greater(), Total);
  const std::vector<HostTimes> shown(
      hosts.begin(), hosts.begin() + static_cast<ptrdiff_t>(std::min(hosts.size(), kShownHosts)));
  Rows rows = {{"MILLISECONDS", "MEDIAN"}};
  for (const HostTimes& host : shown) rows[0].push_back(host.host);
  AddRow("all", hosts, shown, Total, rows);
  for (const std::string_view step : steps) {
    AddRow(
        step, hosts, shown, [&](const HostTimes& host) { return In(host, step); }, rows);
  }
  return fmt::format("{}bring-up of {} host{}: {}\n{}", AlignColumns(rows), hosts.size(),
                     hosts.size() == 1 ? "" : "s", Seconds(whole), Slowest(hosts, steps));
}

}  // namespace tfdist::cli
