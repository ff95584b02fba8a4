#include "cli/hosts/fan_out.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <exception>
#include <memory>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/failures.h"
#include "base/thread_annotations.h"
#include "base/unique_fd.h"
#include "cli/exit_codes.h"
#include "cli/job/connector.h"
#include "cli/show/report.h"
#include "cli/stream/host_fold.h"
#include "cli/stream/interrupts.h"
#include "cli/stream/line_printer.h"
#include "cli/stream/print.h"

namespace tfdist::cli {
namespace {

using namespace std::chrono_literals;
using Ending = RunningCommand::Ending;

constexpr auto kStartLimit = 30s;
constexpr auto kTurn = 250ms;  // how late a thread may hear that all is to end
constexpr auto kGrace = 5s;    // between SIGTERM and SIGKILL, as the host's script has it
constexpr auto kKillAgain = 500ms;
constexpr auto kEndingLimit = 20s;  // from SIGTERM until the host says that it has ended
constexpr auto kNoticeAfter = 1s;
constexpr auto kBeginLimit = 2s;  // after Ctrl-C, for what was to begin: it is ended then if it has
constexpr size_t kGatheredBytes = 1024 * 1024;

TimePoint Now() { return SystemClock().Now(); }

Error Interrupted() { return {Phase::kExec, "interrupted before the command was started"}; }

// How the hosts are to end what runs there; the later ones are the stronger ones.
enum class Wish { kNone, kTerm, kKill };

// What threads and main share.
class Board {
 public:
  Board(std::vector<Errand> errands, bool gather)
      : errands_(std::move(errands)),
        gather_(gather),
        results_(errands_.size()),
        stages_(errands_.size()),
        steps_(errands_.size()) {
    std::vector<std::string> labels;
    for (const Errand& errand : errands_) labels.push_back(errand.label);
    printer_ = std::make_unique<LinePrinter>(STDOUT_FILENO, TerminalOptions(), labels);
  }

  [[nodiscard]] const Errand& errand(size_t at) const { return errands_[at]; }
  [[nodiscard]] const AskedTogether& together() const { return together_; }

  // False: it is not to begin any more.
  [[nodiscard]] bool MayBegin(size_t at) {
    const MutexLock lock(mutex_);
    if (wish_ != Wish::kNone || stages_[at] == Stage::kOver) return false;
    stages_[at] = Stage::kAsked;
    return true;
  }
  // False: it was given up.
  [[nodiscard]] bool NoteRuns(size_t at) {
    const MutexLock lock(mutex_);
    if (stages_[at] == Stage::kOver) return false;
    stages_[at] = Stage::kRuns;
    together_.NoteAnswer();
    return true;
  }
  // `step`: a string literal.
  void NoteStep(size_t at, const char* step) {
    const MutexLock lock(mutex_);
    steps_[at] = step;
  }
  void Show(size_t at, std::string_view output) {
    const MutexLock lock(mutex_);
    gather_ ? Keep(results_[at], output) : Print(at, output);
  }
  void End(size_t at, std::optional<HostCommandEnd> end, std::optional<Error> error) {
    const MutexLock lock(mutex_);
    if (stages_[at] == Stage::kOver) return;  // it was given up
    results_[at].end = std::move(end);
    results_[at].error = std::move(error);
    stages_[at] = Stage::kOver;
    if (!gather_)
      WhileOutputIsOpen([&](LinePrinter& printer) { printer.Finish(errands_[at].label); });
    const uint64_t one = 1;
    (void)!write(changed_.get(), &one, sizeof one);
  }
  void NoteTimeOut(size_t at) {
    const MutexLock lock(mutex_);
    results_[at].timed_out = true;
  }

  [[nodiscard]] Wish wish() {
    const MutexLock lock(mutex_);
    return wish_;
  }
  void Wishes(Wish wish) {
    const MutexLock lock(mutex_);
    wish_ = std::max(wish_, wish);
  }
  [[nodiscard]] bool AllOver() { return Where(Stage::kOver).size() == errands_.size(); }
  // A host was told to begin, and has not said that it did: its start-up files may take long.
  [[nodiscard]] bool OneMayBegin() { return !Where(Stage::kAsked).empty(); }
  // Hosts that have not begun.
  [[nodiscard]] std::vector<std::string> Awaited() {
    std::vector<std::string> hosts = Where(Stage::kNone);
    for (std::string& host : Where(Stage::kAsked)) hosts.push_back(std::move(host));
    return hosts;
  }
  [[nodiscard]] std::vector<std::string> Running() { return Where(Stage::kRuns); }
  // Whoever has not begun does not any more, and what its host answers is not heard. Returns whether there is one.
  bool GiveUpWhatHasNotBegun(bool timed_out) {
    const MutexLock lock(mutex_);
    bool one_is_given_up = false;
    for (size_t at = 0; at < stages_.size(); ++at) {
      if (stages_[at] == Stage::kOver || stages_[at] == Stage::kRuns) continue;
      const std::string& host = errands_[at].host.name;
      results_[at].error = (timed_out ? TooLate(at) : TooEarly(at)).WithHost(host);
      results_[at].timed_out = timed_out;
      stages_[at] = Stage::kOver;
      one_is_given_up = true;
    }
    return one_is_given_up;
  }
  std::optional<TimePoint> ShowUnfinished() {
    const MutexLock lock(mutex_);
    std::optional<TimePoint> next;
    if (!gather_)
      WhileOutputIsOpen([&](LinePrinter& printer) { next = printer.ShowUnfinished(Now()); });
    return next;
  }
  void Note(const std::string& text) {
    const MutexLock lock(mutex_);
    WhileOutputIsOpen([&](LinePrinter& printer) { printer.Note("tfdist: {}", text); });
  }
  // Readable when something has ended.
  [[nodiscard]] int fd() const { return changed_.get(); }
  [[nodiscard]] std::vector<ErrandResult> TakeResults() {
    const MutexLock lock(mutex_);
    if (output_failure_ && output_failure_->reader_left()) throw OutputClosed(*output_failure_);
    if (output_failure_) throw OutputClosed(*output_failure_, "the command was ended");
    printer_.reset();  // ends the line that the cursor stands in
    return std::move(results_);
  }

 private:
  enum class Stage { kNone, kAsked, kRuns, kOver };

  [[nodiscard]] Error TooLate(size_t at) const REQUIRES(mutex_) {
    const std::string& host = errands_[at].host.name;
    const bool may_have_begun = stages_[at] == Stage::kAsked;
    const std::string step = steps_[at] == nullptr ? "" : fmt::format(" ({})", steps_[at]);
    return {
        Phase::kConnect,
        may_have_begun ? "timed out while the command was to begin: the host ends it as the "
                         "connection is closed"
                       : fmt::format("timed out in the login{}: the command was not started", step),
        fmt::format("ssh -v {} true shows what takes long; --timeout counts the login, too", host)};
  }
  [[nodiscard]] Error TooEarly(size_t at) const REQUIRES(mutex_) {
    if (stages_[at] != Stage::kAsked) return Interrupted();
    return {Phase::kExec,
            "interrupted while the command was to begin: the host ends it as the connection is "
            "closed"};
  }
  static void Keep(ErrandResult& result, std::string_view output) {
    const size_t room = kGatheredBytes - result.output.size();
    result.output += output.substr(0, room);
    result.cut = result.cut || output.size() > room;
  }
  void Print(size_t at, std::string_view output) REQUIRES(mutex_) {
    protocol::LogPiece piece;
    piece.segments.push_back({protocol::Stream::kMerged, static_cast<uint32_t>(output.size()), 1, 1,
                              WallClockNanoseconds()});
    piece.data = output;
    WhileOutputIsOpen([&](LinePrinter& printer) { printer.Print(errands_[at].label, piece); });
  }
  // Once nobody reads what comes, all is ended.
  template <typename Write>
  void WhileOutputIsOpen(Write write_it) REQUIRES(mutex_) {
    if (output_failure_) return;
    try {
      write_it(*printer_);
    } catch (const OutputClosed& closed) {
      output_failure_ = closed;
      wish_ = std::max(wish_, Wish::kTerm);
    }
  }
  [[nodiscard]] std::vector<std::string> Where(Stage stage) {
    const MutexLock lock(mutex_);
    std::vector<std::string> hosts;
    for (size_t at = 0; at < stages_.size(); ++at) {
      if (stages_[at] == stage) hosts.push_back(errands_[at].host.name);
    }
    return hosts;
  }

  const std::vector<Errand> errands_;
  const bool gather_;
  AskedTogether together_;
  UniqueFd changed_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  Mutex mutex_;
  std::vector<ErrandResult> results_ GUARDED_BY(mutex_);
  std::vector<Stage> stages_ GUARDED_BY(mutex_);
  std::vector<const char*> steps_ GUARDED_BY(mutex_);  // of the login; nullptr: none so far
  std::unique_ptr<LinePrinter> printer_ GUARDED_BY(mutex_);
  std::optional<OutputClosed> output_failure_ GUARDED_BY(mutex_);
  Wish wish_ GUARDED_BY(mutex_) = Wish::kNone;
};

// Ends one command as the user or its time limit wants it.
class Ender {
 public:
  explicit Ender(RunningCommand& running) : running_(running) {}

  void Turn(Wish wish) {
    if (wish == Wish::kNone) return;
    const TimePoint now = Now();
    if (!told_) {
      told_ = true;
      since_ = now;
      running_.Ask(Ending::kTerm, now + kEndingLimit);
    }
    const bool is_due = wish == Wish::kKill || now >= since_ + kGrace;
    if (is_due && now >= kill_again_) {
      kill_again_ = now + kKillAgain;
      running_.Ask(Ending::kKill, now + kEndingLimit);
    }
    if (now > since_ + kEndingLimit) {
      throw LostConnection(Phase::kExec, "the host does not say that the command has ended",
                           "look there for what is left of it");
    }
  }

 private:
  RunningCommand& running_;
  bool told_ = false;
  TimePoint since_{};
  TimePoint kill_again_{};
};

void Follow(RunningCommand& running, Board& board, size_t at, const FanOutOptions& options) {
  const std::optional<TimePoint> limit =
      options.timeout ? std::optional(Now() + *options.timeout) : options.until;
  Ender ender(running);
  std::string output;
  while (true) {
    const TimePoint turn = Now() + kTurn;
    const auto end = running.Read(output, limit && *limit > Now() ? std::min(turn, *limit) : turn);
    if (!output.empty()) board.Show(at, std::exchange(output, {}));
    if (end) return board.End(at, end, std::nullopt);
    const bool is_late = limit && Now() >= *limit;
    if (is_late) board.NoteTimeOut(at);
    ender.Turn(std::max(board.wish(), is_late ? Wish::kTerm : Wish::kNone));
  }
}

void RunErrand(size_t at, const SshOptions& ssh, const FanOutOptions& options, Board& board) {
  const Errand& errand = board.errand(at);
  TimePoint deadline = Now() + kStartLimit;
  const auto transport = MakeTransport(
      errand.host, ssh, Silence::kMayBeAFirewall,
      [&](const char* step) { board.NoteStep(at, step); }, {}, &board.together());
  auto channel = transport->OpenShell(deadline);
  if (!board.MayBegin(at)) return board.End(at, std::nullopt, Interrupted());
  RunningCommand running(std::move(channel), errand.command, deadline);
  if (!board.NoteRuns(at)) return;
  Follow(running, board, at, options);
}

void RunErrandOrSay(size_t at, const SshOptions& ssh, const FanOutOptions& options, Board& board) {
  const Errand& errand = board.errand(at);
  try {
    RunErrand(at, ssh, options, board);
  } catch (const Error& error) {
    board.End(at, std::nullopt, error.host().empty() ? error.WithHost(errand.host.name) : error);
  } catch (const std::exception& e) {
    board.End(at, std::nullopt, Error(Phase::kInternal, e.what()).WithHost(errand.host.name));
  }
}

class Overseer {
 public:
  Overseer(Board& board, Interrupts& interrupts, std::optional<TimePoint> until)
      : board_(board), interrupts_(interrupts), until_(until) {}

  // Until all is over, or Ctrl-C was pressed and nothing is known to run. Returns whether hosts were given up that had not begun.
  bool Run() {
    bool one_is_given_up = false;
    while (!board_.AllOver() && !MayLeave()) {
      Wait(board_.ShowUnfinished());
      HandleInterrupts(interrupts_.Take());
      SayWhomWeWaitFor();
      if (until_ && Now() >= *until_) one_is_given_up |= board_.GiveUpWhatHasNotBegun(true);
    }
    return board_.GiveUpWhatHasNotBegun(false) || one_is_given_up;
  }
  [[nodiscard]] bool interrupted() const { return interrupts_seen_ > 0; }

 private:
  bool MayLeave() {
    if (!interrupted() || !board_.Running().empty()) return false;
    return !board_.OneMayBegin() || interrupts_seen_ > 1 || Now() >= interrupted_at_ + kBeginLimit;
  }

  void Wait(std::optional<TimePoint> wake) {
    std::array<pollfd, 2> fds{{{interrupts_.fd(), POLLIN, 0}, {board_.fd(), POLLIN, 0}}};
    const TimePoint now = Now();
    TimePoint until = now + kTurn;
    if (wake) until = std::clamp(*wake, now, until);
    poll(fds.data(), fds.size(), PollTimeout(now, until));
    uint64_t ended = 0;
    (void)!read(board_.fd(), &ended, sizeof ended);
  }

  void HandleInterrupts(int count) {
    for (; count > 0; --count) {
      ++interrupts_seen_;
      const bool is_first = interrupts_seen_ == 1;
      if (is_first) interrupted_at_ = Now();
      board_.Wishes(is_first ? Wish::kTerm : Wish::kKill);
      const auto running = board_.Running();
      if (running.empty()) continue;
      board_.Note(fmt::format("{} on {}{}", is_first ? "ending the command" : "killing the command",
                              FoldHosts(running), is_first ? " (Ctrl-C again: at once)" : ""));
    }
  }

  void SayWhomWeWaitFor() {
    if (said_ || Now() < since_ + kNoticeAfter) return;
    said_ = true;
    const auto awaited = board_.Awaited();
    if (!awaited.empty()) {
      board_.Note(fmt::format("waiting for {} to answer", FoldHosts(awaited)));
    }
  }

  Board& board_;
  Interrupts& interrupts_;
  const std::optional<TimePoint> until_;
  const TimePoint since_ = Now();
  bool said_ = false;
  int interrupts_seen_ = 0;
  TimePoint interrupted_at_{};
};

}  // namespace

FanOutResult FanOut(const std::vector<Errand>& errands, const SshOptions& ssh,
                    const FanOutOptions& options) {
  Interrupts interrupts;
  const auto board = std::make_shared<Board>(errands, options.gather);
  std::vector<std::thread> threads;
  for (size_t at = 0; at < errands.size(); ++at) {
    try {
      threads.emplace_back([=] { RunErrandOrSay(at, ssh, options, *board); });
    } catch (const std::system_error& e) {
      board->End(at, std::nullopt,
                 Error(Phase::kInternal, fmt::format("no thread for it: {}", e.what()))
                     .WithHost(errands[at].host.name));
    }
  }
  Overseer overseer(*board, interrupts, options.until);
  FanOutResult result;
  result.threads_left = overseer.Run();
  result.interrupted = overseer.interrupted();
  for (std::thread& thread : threads) result.threads_left ? thread.detach() : thread.join();
  result.results = board->TakeResults();
  return result;
}

}  // namespace tfdist::cli
