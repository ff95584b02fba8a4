#include "cli/find/start_again.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "base/clock.h"
#include "base/failures.h"
#include "cli/hosts/for_each_host.h"
#include "cli/job/connector.h"
#include "cli/job/go_on.h"
#include "cli/link/bootstrap.h"

namespace tfdist::cli {
namespace {

using namespace std::chrono_literals;

constexpr auto kTryLimit = 10s;

std::vector<std::string> FolderIsGone(const JobRecord& record, int slot) {
  return {
      fmt::format("tfdist: {}: the job's folder is gone from it, so its agent cannot start again",
                  record.hosts.at(static_cast<size_t>(slot)).name),
      fmt::format("  try: tfdist down {}, then the same `up`; [ssh] remote_dir names a folder that "
                  "a restart of the host does not empty",
                  record.id)};
}

}  // namespace

std::string StartAgentAgain(const JobRecord& record, int slot) {
  TimePoint deadline = SystemClock().Now() + kTryLimit;
  // One that is silent for a moment is off: `up` waits for this at its end.
  const Attached host = Attach(record, slot, deadline, [] { return true; });
  const bool was_killed =
      host.hello.serving == protocol::Serving::kFolder && host.hello.killed.has_value();
  if (!was_killed) return "";
  if (const std::string why = WhyToldToEnd(record); !why.empty()) {
    throw Error(Phase::kControl, fmt::format("job {} was told to end: {}", record.id, why),
                CommandToEndTheRest(record));
  }
  const std::string& name = record.hosts.at(static_cast<size_t>(slot)).name;
  try {
    const protocol::Json answer =
        host.link->Call(protocol::type::kStartAgain, protocol::Json::object(), deadline);
    return fmt::format("tfdist: {}: {}; its agent runs again", name,
                       answer.value("why", *host.hello.killed));
  } catch (Error& error) {
    error = error.WithHost(name);
    throw;
  }
}

StartedAgain StartAgentsAgain(const JobRecord& record, const std::vector<int>& slots) {
  std::vector<std::string> begun(slots.size());
  std::vector<std::vector<std::string>> gone(slots.size());
  // A host that cannot be reached, or will not, is lost as before.
  (void)ForEachHost(slots.size(), [&](size_t at) {
    try {
      begun[at] = StartAgentAgain(record, slots[at]);
    } catch (const NothingThere&) {
      gone[at] = FolderIsGone(record, slots[at]);
    }
  });
  std::erase(begun, "");
  StartedAgain started;
  started.any = !begun.empty();
  started.lines = std::move(begun);
  for (const auto& lines : gone) std::ranges::copy(lines, std::back_inserter(started.lines));
  return started;
}

}  // namespace tfdist::cli
