// `tfdist top [JOB]`, `tfdist status -w`: CPU, memory and GPUs of each task, again and again.

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "base/clock.h"
#include "base/display_width.h"
#include "base/failures.h"
#include "cli/cluster_file/quantity.h"
#include "cli/commands/commands.h"
#include "cli/exit_codes.h"
#include "cli/find/begun.h"
#include "cli/find/find_job.h"
#include "cli/find/job_look.h"
#include "cli/find/job_view.h"
#include "cli/find/last_known.h"
#include "cli/find/other_hosts.h"
#include "cli/job/connector.h"
#include "cli/link/bootstrap.h"
#include "cli/show/report.h"
#include "cli/show/slow_notice.h"
#include "cli/show/usage.h"
#include "cli/stream/line_printer.h"
#include "cli/stream/print.h"

namespace tfdist::cli {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using protocol::JobPhase;

constexpr auto kTopAttachLimit = 30s;
constexpr auto kTopAnswerLimit = 10s;
constexpr std::chrono::milliseconds kShortestInterval = 500ms;  // hosts sample for so long

std::chrono::milliseconds IntervalOf(const TopArguments& arguments) {
  const auto wanted = ParseOptionMs(arguments.interval);
  if (!wanted || *wanted < kShortestInterval.count()) {
    throw UsageError(Phase::kUsage, fmt::format("--interval: expected a time from 500ms on, got {}",
                                                arguments.interval));
  }
  return std::chrono::milliseconds(*wanted);
}

// The job, over one connection as long as it lasts.
class Watch {
 public:
  explicit Watch(const JobRecord& record) : record_(record) {}

  // Throws LostConnection; the next call connects again.
  std::vector<TaskUsage> Look() {
    try {
      Connect();
      ReadEvents(*attached_->link, record_, SystemClock().Now() + kTopAnswerLimit, {}, view_);
      AddNotedEnd(record_, view_);
      if (!view_.live || view_.state.phase == JobPhase::kEnded) return UsageOf(view_.state, {});
      return UsageOf(view_.state, LookAtUsage(*attached_->link, view_.state));
    } catch (const LostConnection&) {
      attached_.reset();
      throw;
    } catch (const ProtocolError& error) {
      throw AnswersNonsense(record_, 0, error);
    } catch (const NothingThere&) {
      throw NothingLeftOf("the event log", record_);
    }
  }
  // The connection is kept alive meanwhile.
  void PauseUntil(TimePoint end) {
    try {
      while (attached_ && SystemClock().Now() < end) (void)attached_->link->Receive(end);
    } catch (const LostConnection&) {
      attached_.reset();
    }
    std::this_thread::sleep_until(end);
  }
  [[nodiscard]] const JobView& view() const { return view_; }

 private:
  void Connect() {
    if (attached_) return;
    TimePoint deadline = SystemClock().Now() + kTopAttachLimit;
    attached_ = AttachToLook(record_, 0, deadline, IsFirstOff(record_));
    view_.live = attached_->hello.serving == protocol::Serving::kAgent;
  }

  const JobRecord& record_;
  std::optional<Attached> attached_;
  JobView view_;
};

std::string HeadingOf(const JobRecord& record, const JobView& view) {
  const protocol::JobState& state = view.state;
  const int64_t until = state.phase == JobPhase::kEnded ? state.ended_ns : view.NowNs();
  return fmt::format("{}: {}, attempt {}, {} ({})", record.name, StateName(view), state.attempt,
                     Span(until - state.committed_ns), record.id);
}

// Each time in the place of the time before on a terminal; elsewhere one after the other.
class Screen {
 public:
  Screen() : in_place_(TerminalOptions().columns > 0) {}

  void Show(const std::string& heading, const std::vector<TaskUsage>& tasks) {
    std::vector<std::string> lines = {Harmless(heading)};
    winsize size{};
    const bool known = in_place_ && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 2;
    const size_t columns = TerminalOptions().columns;
    // The cursor stands in the line below.
    for (std::string& line : UsageTable(tasks, columns, known ? size.ws_row - 2U : 0)) {
      lines.push_back(std::move(line));
    }
    if (columns > 0) lines[0] = FirstColumns(lines[0], columns);
    Show(lines);
  }
  void Show(const std::vector<std::string>& lines) {
    // Up to the first line of the last time, and clear from there.
    if (in_place_ && shown_ > 0) ClearLinesAbove(shown_);
    for (const std::string& line : lines) Print("{}\n", line);
    if (!in_place_) Print("\n");
    shown_ = lines.size();
    FlushOutput();
  }

 private:
  bool in_place_;
  size_t shown_ = 0;
};

void PrintLookAsLine(const JobRecord& record, const JobView& view,
                     const std::vector<TaskUsage>& tasks) {
  const json value = {{"job", record.id},
                      {"name", record.name},
                      {"state", StateName(view)},
                      {"attempt", view.state.attempt},
                      {"time_ns", WallClockNanoseconds()},
                      {"tasks", UsageJson(tasks)}};
  PrintLines(value.dump(-1, ' ', true, json::error_handler_t::replace) + "\n");
  FlushOutput();
}

// With what the other hosts say.
int Unanswered(const JobRecord& record, const Error& error, bool as_json) {
  if (as_json) throw Error(WhyFirstIsSilent(record, error));
  return PrintLastKnown(record, error);
}

int ShowAgainAndAgain(const JobRecord& record, Watch& watch, const TopArguments& arguments) {
  const std::chrono::milliseconds interval = IntervalOf(arguments);
  Screen screen;
  for (uint64_t count = 1;; ++count) {
    const TimePoint begin = SystemClock().Now();
    {
      // Later ones would stand in the middle of the table.
      std::optional<SlowNotice> notice;
      if (count == 1) notice.emplace(fmt::format("waiting for {} to answer", record.hosts[0].name));
      std::vector<TaskUsage> tasks;
      AskAgainWhenCutOff(begin + kTopAttachLimit, [&] { tasks = watch.Look(); });
      if (arguments.json) {
        PrintLookAsLine(record, watch.view(), tasks);
      } else {
        screen.Show(HeadingOf(record, watch.view()), tasks);
      }
    }
    const bool is_over = watch.view().state.phase == JobPhase::kEnded || !watch.view().live;
    if (is_over || (arguments.count && count >= *arguments.count)) break;
    watch.PauseUntil(begin + interval);
  }
  return kExitSuccess;
}

}  // namespace

int TopCommand(const TopArguments& arguments) {
  (void)IntervalOf(arguments);  // wrong before any host is asked
  const JobRecord record = AwaitBegin(FindJob(arguments.job, Deed::kLook));
  Watch watch(record);
  try {
    return ShowAgainAndAgain(record, watch, arguments);
  } catch (const Unreachable& error) {
    return Unanswered(record, error, arguments.json);
  } catch (const LostConnection& error) {
    return Unanswered(record, error, arguments.json);
  }
}

}  // namespace tfdist::cli
