#include "cli/show/report.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/process_limits.h"
#include "base/text.h"
#include "cli/plan/container_clients.h"
#include "cli/show/known_end.h"
#include "cli/show/same_end.h"
#include "cli/stream/host_fold.h"
#include "cli/stream/print.h"
#include "job/first_cause.h"

namespace tfdist::cli {
namespace {

std::string HostOfTask(const JobRecord& record, const std::string& task) {
  for (const auto& known : record.tasks) {
    if (known.id == task) return record.hosts.at(static_cast<size_t>(known.slot)).name;
  }
  return "?";
}

// As the job itself has it: the record of one that was started elsewhere may have other hosts.
void PrintLastLines(const std::string& lines) {
  std::string_view rest = lines;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    Say("    {}\n", NewestFrame(rest.substr(0, end)));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
}

constexpr size_t kMostCollateral = 10;

// Those that failed after the first one, as they do where a peer is gone.
void PrintCollateral(const protocol::JobState& state, const std::vector<std::string>& names) {
  const int64_t first_ns = state.tasks.at(state.first_task).since_ns;
  for (size_t at = 0; at < std::min(names.size(), kMostCollateral); ++at) {
    const protocol::TaskState& task = state.tasks.at(names[at]);
    Say("  after it, not its cause: {}: {}, {:.1f} s later\n", names[at], Describe(*task.exit),
        static_cast<double>(task.since_ns - first_ns) * 1e-9);
  }
  if (names.size() > kMostCollateral)
    Say("  and {} after it\n", Counted(names.size() - kMostCollateral, "more task"));
}

// What has ended with the same words has failed of itself, as the first one has.
void PrintOthers(const protocol::JobState& state) {
  const std::string& first = state.tasks.at(state.first_task).last_lines;
  std::vector<std::string> others = protocol::Collateral(state);
  const auto differs = [&](const std::string& name) {
    return !EndAlike(first, state.tasks.at(name).last_lines);
  };
  const auto same = std::stable_partition(others.begin(), others.end(), differs);
  if (same != others.end()) Say("  the same from {}\n", FoldHosts({same, others.end()}));
  others.erase(same, others.end());
  PrintCollateral(state, others);
}

void PrintFirstFailure(const JobRecord& record, const protocol::JobState& state) {
  const auto task = state.tasks.find(state.first_task);
  if (task == state.tasks.end()) return;
  const std::string how = task->second.exit ? Describe(*task->second.exit) : "no exit status";
  Say("tfdist: first to fail: {} on {}: {}\n", state.first_task,
      HostOfTask(record, state.first_task), how);
  if (!task->second.last_lines.empty()) {
    Say("  its last lines:\n");
    PrintLastLines(task->second.last_lines);
  }
  PrintOthers(state);
  const std::string remedy = RemedyForEnd(record, state.first_task, task->second.last_lines);
  if (!remedy.empty()) Say("  try: {}\n", remedy);
}

void WarnOfLostOutput(const protocol::JobState& state) {
  for (const protocol::TaskPlan& plan : state.plan.tasks) {
    const auto task = state.tasks.find(plan.task);
    if (task == state.tasks.end() || task->second.lost_bytes == 0) continue;
    PrintWarning(
        fmt::format("{} on {}: {} bytes of its output are lost: they could not be written there",
                    plan.task, HostOfSlot(state, state.SeatOf(plan)), task->second.lost_bytes),
        "make room on its disk, or have the quota raised; its log says why, where that had room");
  }
}

}  // namespace

size_t StdoutColumns() {
  constexpr size_t kWhereUnknown = 80;
  if (isatty(STDOUT_FILENO) == 0) return 0;
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col
                                                                         : kWhereUnknown;
}

std::string QuoteTheTilde(std::string_view text) {
  const char* home = std::getenv("HOME");
  if (home == nullptr || std::string_view(home).size() < 2) return "";
  const std::string below = std::string(home) + '/';
  const size_t at = text.find(below);
  const bool is_path = at != text.npos && (at == 0 || text[at - 1] == ' ' || text[at - 1] == '=' ||
                                           text[at - 1] == '\'');
  if (!is_path) return "";
  return fmt::format(
      "if your shell made {} of ~: quote it ('~/...'), and each host puts its own home folder "
      "there",
      home);
}

std::string HostOfSlot(const protocol::JobState& state, int slot) {
  const auto at = static_cast<size_t>(slot);
  return at < state.plan.slots.size() ? state.plan.slots[at].host : fmt::format("slot {}", slot);
}

std::string Counted(size_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string CountedOf(size_t count, size_t all, std::string_view what) {
  return all == 1 && count == 1 ? Counted(1, what)
                                : fmt::format("{} of {}", count, Counted(all, what));
}

std::string Span(int64_t nanoseconds) {
  const int64_t seconds = std::max<int64_t>(nanoseconds / 1'000'000'000, 0);
  if (seconds < 120) return fmt::format("{}s", seconds);
  if (seconds < 7200) return fmt::format("{}m{:02}s", seconds / 60, seconds % 60);
  return fmt::format("{}h{:02}m", seconds / 3600, seconds / 60 % 60);
}

void PrintError(const Error& error) {
  Say("tfdist: {}\n", error.what());
  // What an account may not have on a host can fail anywhere.
  const bool is_of_host = error.remedy().empty() && !error.host().empty();
  const std::string_view remedy =
      is_of_host ? LimitRemedy(error.cause()) : std::string_view(error.remedy());
  if (!remedy.empty()) Say("  try: {}\n", remedy);
}

void PrintErrors(const std::vector<Error>& errors) {
  for (const FoldedError& folded : FoldErrors(errors)) {
    PrintError(folded.all.front());
    if (!folded.elsewhere.empty()) Say("  {}\n", folded.elsewhere);
  }
}

void PrintWarning(const std::string& text, const std::string& remedy) {
  Say("tfdist: warning: {}\n", text);
  if (!remedy.empty()) Say("  try: {}\n", remedy);
}

PrinterOptions TerminalOptions() {
  PrinterOptions options;
  options.filter = isatty(STDOUT_FILENO) != 0;
  const auto is = [](const char* variable, std::string_view value) {
    const char* set = std::getenv(variable);
    return set != nullptr && set == value;
  };
  const bool wanted = std::getenv("NO_COLOR") == nullptr || is("NO_COLOR", "");  // no-color.org
  const bool plain = is("TERM", "dumb");
  options.colour = options.filter && wanted && !plain;
  if (options.filter && !plain) options.columns = StdoutColumns();
  return options;
}

void ReportEnd(const JobRecord& record, const protocol::JobState& state, bool quiet) {
  if (state.phase != protocol::JobPhase::kEnded) return;
  const double seconds = static_cast<double>(state.ended_ns - state.committed_ns) * 1e-9;
  const bool succeeded = state.result == protocol::JobResult::kSucceeded;
  if (!succeeded || !quiet) {
    const std::string why = protocol::WhyItEnded(state);
    Say("tfdist: job {} {} after {:.1f} s{}{}\n", record.id, NameOf(state.result), seconds,
        why.empty() ? "" : ": ", why);
  }
  if (state.result == protocol::JobResult::kFailed) PrintFirstFailure(record, state);
  if (state.why.ends_with("(finish_timeout)")) {
    Say("  try: tfdist why {} where it hung; --set finish_timeout=1h where it needs longer\n",
        record.id);
  }
  WarnOfLostOutput(state);
  for (size_t slot = 0; slot < state.slots.size(); ++slot) {
    const auto& census = state.slots[slot].census;
    if (!census) continue;
    for (const std::string& call : census->clients) {
      Say("tfdist: {}: {}\n", HostOfSlot(state, static_cast<int>(slot)), MayBeLeft(call));
    }
  }
  for (const auto* doubtful : {&state.unconfirmed, &state.unreachable}) {
    for (const int slot : *doubtful) {
      Say("tfdist: {}: {}; run tfdist down {}\n", HostOfSlot(state, slot),
          doubtful == &state.unconfirmed ? "processes are left" : "not heard when the job ended",
          record.id);
    }
  }
}

}  // namespace tfdist::cli
