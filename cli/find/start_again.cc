#include "cli/find/start_again.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/clock.h"
#include "base/failures.h"
#include "cli/hosts/for_each_host.h"
#include "cli/job/connector.h"

namespace tfdist::cli {
namespace {

using namespace std::chrono_literals;

constexpr auto kTryLimit = 10s;

}  // namespace

std::string StartAgentAgain(const JobRecord& record, int slot) {
  TimePoint deadline = SystemClock().Now() + kTryLimit;
  // One that is silent for a moment is off: `up` waits for this at its end.
  const Attached host = Attach(record, slot, deadline, [] { return true; });
  const bool was_killed =
      host.hello.serving == protocol::Serving::kFolder && host.hello.killed.has_value();
  if (!was_killed) return "";
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

std::vector<std::string> StartAgentsAgain(const JobRecord& record, const std::vector<int>& slots) {
  std::vector<std::string> lines(slots.size());
  // A host that cannot be reached, or will not, is lost as before.
  (void)ForEachHost(slots.size(),
                    [&](size_t at) { lines[at] = StartAgentAgain(record, slots[at]); });
  std::erase(lines, "");
  return lines;
}

}  // namespace tfdist::cli
