#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <exception>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/process_limits.h"
#include "base/size_text.h"
#include "base/text.h"
#include "cli/cluster_file/standard_input.h"
#include "cli/commands/commands.h"
#include "cli/commands/end_job.h"
#include "cli/deploy/deployment.h"
#include "cli/deploy/file_hashes.h"
#include "cli/deploy/git_state.h"
#include "cli/deploy/plan_hash.h"
#include "cli/deploy/runtime_program.h"
#include "cli/deploy/set_up.h"
#include "cli/deploy/workdir_hashes.h"
#include "cli/deploy/workdir_report.h"
#include "cli/deploy/workdir_warnings.h"
#include "cli/exit_codes.h"
#include "cli/find/adopt_job.h"
#include "cli/find/find_job.h"
#include "cli/find/job_view.h"
#include "cli/find/kept_files.h"
#include "cli/find/other_hosts.h"
#include "cli/find/start_again.h"
#include "cli/hosts/host_names.h"
#include "cli/job/connector.h"
#include "cli/job/state_folder.h"
#include "cli/link/bootstrap.h"
#include "cli/plan/containers.h"
#include "cli/plan/describe.h"
#include "cli/plan/host_count.h"
#include "cli/plan/spares.h"
#include "cli/render/render.h"
#include "cli/render/settings.h"
#include "cli/show/consent.h"
#include "cli/show/kept_text.h"
#include "cli/show/plan_difference.h"
#include "cli/show/print_json.h"
#include "cli/show/report.h"
#include "cli/show/slow_notice.h"
#include "cli/show/timeline.h"
#include "cli/show/workdir_look.h"
#include "cli/stream/end_at_interrupt.h"
#include "cli/stream/host_fold.h"
#include "cli/stream/job_follower.h"
#include "cli/stream/print.h"
#include "cli/stream/running_tasks.h"
#include "cli/tensorboard/tensorboard_beside.h"
#include "job/layout.h"
#include "wire/refusal.h"

namespace tfdist::cli {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

constexpr size_t kSecretBytes = 32;
constexpr size_t kDigitsInRecord = 8;
// A slow host is named after so long.
constexpr auto kSlowHost = 5s;
constexpr auto kSlowRollBack = 1s;
constexpr auto kStandsStill = 5s;  // `up` looks each 200 ms
// Of a large repository it may take longer, and is not known then.
constexpr auto kGitLimit = 3s;
constexpr std::string_view kReplaces = "tfdist up --replace";  // why a job ended
// While files are packed.
constexpr auto kLookForStop = 100ms;
// For the coordinator of a job that may run already.
constexpr auto kAskLimit = 10s;
// For another job of the name that is being started: longer than its agents believe in an `up` that was killed.
constexpr auto kOtherStartLimit = 75s;
constexpr auto kPauseBeforeStart = 1s;
// Longer than the agents need to take a request to go back; they remove themselves otherwise.
constexpr auto kRollBackLimit = 10s;

std::vector<std::unique_ptr<DataParts>> LoadData(const Plan& plan) {
  const SlowNotice notice("reading data");
  return DataSentBy(plan);
}

Cargo LoadCargo(const Plan& plan, const std::string& id, const WorkdirListing& listing,
                FileHashes& hashes, const UpArguments& arguments) {
  Cargo cargo;
  cargo.set_up = DescribeSetUp(plan, listing, hashes);
  if (cargo.set_up) cargo.set_up->again = arguments.set_up;
  cargo.kept = ClaimToKept(
      plan, arguments.take_keep || ConsentFor(Deed::kUseKept, {.named = true}) == Consent::kGiven);
  cargo.job = DescribeJob(plan, id);
  cargo.secret = RandomHex(kSecretBytes);
  cargo.data = LoadData(plan);
  for (const ImagePlan& image : plan.images) {
    if (!image.key.empty()) cargo.images.push_back(std::make_unique<ImageParts>(image));
  }
  if (plan.workdir) {
    const SlowNotice notice(fmt::format("packing {}", WorkdirText(listing)));
    cargo.workdir = std::make_unique<WorkdirParts>(*plan.workdir, listing, hashes);
  }
  cargo.job.plan_sha256 = HashWithContent(plan, cargo.data, cargo.workdir.get());
  if (plan.needs_runtime) cargo.runtime = PackRuntime();
  if (plan.needs_cuda_runtime) cargo.cuda_runtime = PackCudaRuntime();
  return cargo;
}

void ShowDifferences(const JobRecord& running, const JobRecord& wanted) {
  std::vector<std::string> lines = PlanDifferences(running, wanted);
  auto changed = ChangedFiles(running.files, wanted.files);
  std::erase_if(changed, [&](const std::string& path) {
    const bool is_data = path.starts_with(kDataInRecord);
    if (is_data) lines.push_back("data changed: " + path.substr(kDataInRecord.size()));
    return is_data;
  });
  if (!changed.empty()) lines.push_back(ChangedFilesText(changed));
  if (lines.empty())
    lines.emplace_back("what differs is not known: another version of tfdist has started it");
  for (const std::string& line : lines) Say("  {}\n", line);
}

std::map<std::string, std::string> LabelsOf(const UpArguments& arguments) {
  std::map<std::string, std::string> labels;
  for (const std::string& label : arguments.labels) {
    const size_t equals = label.find('=');
    if (equals == 0 || equals == label.npos) {
      throw UsageError(Phase::kUsage, fmt::format("--label: expected KEY=VALUE, got {}", label),
                       "--label lr=0.1");
    }
    labels[label.substr(0, equals)] = label.substr(equals + 1);
  }
  return labels;
}

// Whether this command started the job, or found it running. Ctrl-C ends only one's own job.
enum class Started { kHere, kElsewhere };

// "/home/u/.cache/tfdist/PATH on the hosts"; hosts may have homes that differ.
std::string OnTheHosts(const JobRecord& record, const std::string& path) {
  std::map<std::string, std::set<std::string>> hosts;
  for (const JobRecord::Task& task : record.tasks) {
    const auto slot = static_cast<size_t>(task.slot);
    if (slot < record.bases.size() && !record.bases[slot].empty())
      hosts[record.bases[slot]].insert(record.hosts.at(slot).name);
  }
  std::vector<std::string> places;
  for (const auto& [base, names] : hosts) {
    places.push_back(
        fmt::format("{}/{} on {}", base, path,
                    hosts.size() == 1 ? "the hosts" : FoldHosts({names.begin(), names.end()})));
  }
  return fmt::format("{}", fmt::join(places, ", or "));
}

// Nobody would look in a hidden folder.
void SayWhereResultsLie(const JobRecord& record) {
  const bool all_elsewhere = std::ranges::none_of(
      record.tasks, [](const JobRecord::Task& task) { return task.folder.empty(); });
  if (const std::string folders = FoldersOfHosts(record); !folders.empty()) {
    Say("tfdist: what its tasks wrote where they start, in {}, is on the hosts: pull does not look "
        "there\n",
        folders);
  }
  const std::string work = OnTheHosts(record, fmt::format("jobs/{}/*/work", record.id));
  if (work.empty()) return;
  if (!all_elsewhere)
    Say("tfdist: files of its tasks, if any: tfdist pull {}, or {}\n", record.id, work);
  if (!record.keeps) return;
  Say("tfdist: what they keep for the next job called {}: {}\n", record.name,
      OnTheHosts(record, "keep/" + record.name));
}

// A job may well be silent for long.
std::vector<std::string> LinesOfSilence(const JobRecord& record) {
  try {
    const JobView view =
        LookAt(record, {}, kAskLimit, LookWish{.silent_after_ms = record.silent_after_ms});
    if (!view.trouble.empty()) {
      return {fmt::format("tfdist: {}: event log: {}", record.hosts[0].name, view.trouble),
              "  try: make room there: no task starts again before that is written"};
    }
    if (!MayStandStill(view.look, view.state)) return {};
    std::vector<std::string> lines = {
        fmt::format("tfdist: no task has written anything for {}; tfdist why {} says more:",
                    Span(view.look.silent_ms * 1'000'000), record.id)};
    for (const std::string& sentence : Sentences(view.look, view.state)) {
      lines.push_back("  " + sentence);
    }
    return lines;
  } catch (const Error&) {
    return {};  // its connection is another one's matter
  }
}

// Tasks that write that they wait for each other are not silent.
std::vector<std::string> LinesOfVainOutput(const JobRecord& record) {
  try {
    const JobView view = LookAt(record, {}, kAskLimit, LookWish{.silent_after_ms = 0});
    std::string line = OfAnotherCluster(view.look, view.state);
    // Of a first task that has ended the follower tells without a look.
    if (line.empty() && WhoMayWaitForAnEndedTask(view.state).empty()) {
      line = MayWaitForTheEnded(view.look, view.state);
    }
    return line.empty() ? std::vector<std::string>() : std::vector{"tfdist: " + line};
  } catch (const Error&) {
    return {};  // as above
  }
}

int LeaveIt(const JobRecord& record, const OutputClosed& error) {
  Say("tfdist: {}; the job goes on: tfdist logs -f {}\n",
      error.reader_left() ? "nobody reads the output any more" : error.cause(), record.id);
  return error.reader_left() ? kExitOutputClosed : kExitOutput;
}

// Ctrl-C ends a job on all hosts that answer, whether or not the first one does.
void EndWithoutTheFirst(const JobRecord& record, Interrupts& interrupts) {
  Say("tfdist: {}: no agent of the job answers there; ending it on each host itself\n",
      record.hosts.at(0).name);
  const EndAtInterrupt ends(
      [&record] {
        return fmt::format("job {} may be ending: tfdist down {}", record.id, record.id);
      },
      interrupts);
  PrintEndReport(record, EndJob(record, false, kUpWasInterrupted));
}

int Follow(const JobRecord& record, Attached coordinator, Interrupts& interrupts, Started started,
           const UpArguments& arguments) {
  const bool quiet = arguments.quiet;
  std::optional<TensorBoardBeside> board;
  if (arguments.tensorboard) board.emplace(record.id);
  FollowOptions options;
  if (board) options.notes_fd = board->lines_fd();
  for (const auto& task : record.tasks) options.tasks.push_back(task.id);
  options.narrate = true;  // what it says is a warning, which -q prints as well
  options.mark_runs = !quiet;
  options.interrupt_stops_job = started == Started::kHere;
  options.silent_after = std::chrono::milliseconds(record.silent_after_ms);
  options.on_silence = [&record] { return LinesOfSilence(record); };
  options.on_output = [&record] { return LinesOfVainOutput(record); };
  options.on_first_killed = [&record] { return StartAgentAgain(record, 0); };
  options.on_lost = [&record](const auto& slots) { return StartAgentsAgain(record, slots).lines; };
  PrinterOptions printing = TerminalOptions();
  if (isatty(STDOUT_FILENO) == 0 || isatty(STDERR_FILENO) == 0) printing.stderr_fd = STDERR_FILENO;
  LinePrinter printer(STDOUT_FILENO, printing, options.tasks);
  JobFollower follower(record, std::move(coordinator), options, printer, interrupts);
  try {
    const protocol::JobState state = follower.Run();
    NoteLastSeen(record, SeenIn(state, true, follower.ahead_ns()));
    const bool succeeded = state.result == protocol::JobResult::kSucceeded;
    ReportEnd(record, state, quiet);
    if (state.phase == protocol::JobPhase::kEnded && !quiet) SayWhereResultsLie(record);
    if (follower.left_unended()) EndWithoutTheFirst(record, interrupts);
    if (follower.interrupted() && started == Started::kElsewhere) {
      Say("tfdist: leaving; the job goes on: tfdist logs -f {0}; tfdist down {0} ends it\n",
          record.id);
    }
    if (follower.interrupted()) return kExitInterrupted;
    return succeeded ? kExitSuccess : kExitJobFailed;
  } catch (const NothingThere&) {
    throw FolderOfFirstIsGone(record);
  } catch (const OutputClosed& error) {
    return LeaveIt(record, error);
  }
}

// `up -d` of a job that runs. What it prints may be the only place where a script finds the id.
int TellJob(const JobRecord& record, const std::function<void()>& print) {
  try {
    print();
    FlushOutput();
    return kExitSuccess;
  } catch (const OutputClosed& error) {
    return LeaveIt(record, error);
  }
}

std::optional<JobRecord> Known(const std::string& id) {
  for (JobRecord& record : LoadRecords()) {
    if (record.id == id) return std::move(record);
  }
  return std::nullopt;
}

// A job that runs under the plan's name, started here or elsewhere. The host that names it is not trusted with jobs of
// other names, nor of other hosts.
JobRecord KnownOrAdopted(const Plan& plan, size_t slot, const std::string& id) {
  if (!layout::IsJobIdOf(id, plan.name)) {
    throw ProtocolError(
        Phase::kStart,
        id.empty()
            ? fmt::format("a job named '{}' runs there, and which one is not known", plan.name)
            : fmt::format("the host says that job {} has the name {}", id, plan.name),
        "look who else uses this account there; another name helps")
        .WithHost(plan.hosts[0].name);
  }
  auto known = Known(id);
  if (!known) return AdoptJobOf(plan, id);
  if (HasFirstHostOf(*known, plan) || HasHost(*known, plan.hosts.at(slot), plan.ssh)) {
    return std::move(*known);
  }
  throw ProtocolError(Phase::kStart,
                      fmt::format("the host says that job {} runs there, which this machine has "
                                  "started elsewhere, or by other [ssh] settings",
                                  id),
                      "look who else uses this account there; another name helps")
      .WithHost(plan.hosts[0].name);
}

void PrintUpAsJson(const Plan& plan, const std::string& job, bool ran_already) {
  json value = {{"job", job},
                {"name", plan.name},
                {"ran_already", ran_already},
                {"hosts", json::array()},
                {"tasks", json::array()}};
  for (const HostPlan& host : plan.hosts) {
    const json listed = {{"host", host.name}, {"address", host.address}, {"spare", host.spare}};
    if (std::ranges::find(value["hosts"], listed) == value["hosts"].end()) {
      value["hosts"].push_back(listed);
    }
  }
  for (const TaskOnHost& task : plan.tasks) {
    value["tasks"].push_back({{"task", ToString(task.id)},
                              {"host", plan.hosts.at(static_cast<size_t>(task.slot)).name},
                              {"port", task.port == 0 ? json() : json(task.port)},
                              {"more_ports", task.more_ports}});
  }
  PrintJson(value);
}

// A job that runs from this plan.
int JoinIt(const Plan& plan, const JobRecord& record, Interrupts& interrupts,
           const UpArguments& arguments) {
  const std::string& job = record.id;
  if (!Known(job)) SaveRecord(record);  // for `wait`, `logs`, `pull` after it
  if (arguments.json) return TellJob(record, [&] { PrintUpAsJson(plan, job, true); });
  if (arguments.quiet && arguments.detach) return TellJob(record, [&] { Print("{}\n", job); });
  if (!arguments.quiet) {
    const std::string by = StrangerWhoStarted(record);
    Say("tfdist: job {} runs already, from this plan{}{}\n", job,
        by.empty() ? "" : fmt::format(", started by {}", by),
        arguments.detach ? "" : ": joining it; Ctrl-C leaves it running");
  }
  if (arguments.detach) return kExitSuccess;
  interrupts.LetHangUpEnd();
  return Follow(record, {}, interrupts, Started::kElsewhere, arguments);
}

// Of other first hosts, it must be this very file that started it, or no file of this project: its hosts have changed since.
bool IsOfThisProgram(const JobRecord& running, const Plan& plan) {
  return HasFirstHostOf(running, plan) ||
         (running.file == plan.file && !(plan.file.empty() && IsOfAnotherProject(running, plan)));
}

bool MayBeReplaced(const JobRecord& running, const Plan& plan) {
  return IsOfThisProgram(running, plan) || !Known(running.id);
}

// "; alice@laptop started it 3h02m ago".
std::string WhoseText(const JobRecord& running) {
  const std::string by = StrangerWhoStarted(running);
  if (by.empty() && !running.elsewhere) return "";
  const int64_t created_ns = CreatedNanoseconds(running);
  const std::string ago =
      created_ns == 0 ? "" : fmt::format(" {} ago", Span(WallClockNanoseconds() - created_ns));
  if (by.empty())
    return fmt::format("; it was not started here{}: a colleague's, perhaps",
                       ago.empty() ? "" : ", but" + ago);
  return fmt::format("; {} started it{}", by, ago);
}

// The job of that name on slot 0, when it is the same plan: `up` again joins it.
int Join(const Plan& plan, const Deployment::Outcome& outcome, const JobRecord& running,
         const JobRecord& wanted, Interrupts& interrupts, const UpArguments& arguments) {
  const protocol::NameTaken& taken = *outcome.name_taken;
  if (taken.plan_sha256() != wanted.plan_sha256) {
    Say("tfdist: {}: job {} runs under this name, from another plan{}\n",
        plan.hosts.at(outcome.taken_slot).name, taken.job(),
        IsOfAnotherProject(running, plan) ? "; it was started from " + ProjectOf(running)
                                          : WhoseText(running));
    // Of one that another machine started the plan is not here to compare.
    if (!running.elsewhere) ShowDifferences(running, wanted);
    const bool may_go = MayBeReplaced(running, plan);
    if (running.elsewhere) {
      Say("  try: --name NAME starts this one beside it; {} ends that one\n",
          may_go ? fmt::format("--name {} --replace", running.name) : "tfdist down " + running.id);
    } else {
      Say("  try: tfdist down {}{}, or another name\n", taken.job(),
          may_go ? ", or tfdist up --replace" : "");
    }
    return kExitNoJob;
  }
  return JoinIt(plan, running, interrupts, arguments);
}

// By an error: who finds nobody at the job would say that its `up` was killed.
void NoteThatUpEnds(const std::string& id) try {
  std::vector<JobRecord> records = LoadRecords();
  const auto known = std::ranges::find(records, id, &JobRecord::id);
  const bool is_told = known == records.end() || !known->last_seen.why.empty() ||
                       known->last_seen.stage != LastSeen::Stage::kStarting;
  if (is_told) return;
  known->last_seen.why = kUpHasEnded;
  TrySaveRecord(*known);
} catch (const Error&) {
  return;  // nobody can read the records
}

// A job that `up` is at has a record from its first moment, for `down` to find. Unless hosts were asked for it, the record
// goes with this.
class Announced {
 public:
  explicit Announced(const JobRecord& record) : mark_(record.id), id_(record.id) {
    SaveRecord(record);
  }
  Announced(const Announced&) = delete;
  Announced& operator=(const Announced&) = delete;
  ~Announced() {
    if (!hosts_are_asked_) RemoveRecord(id_);
    if (hosts_are_asked_ && std::uncaught_exceptions() > 0) NoteThatUpEnds(id_);
  }
  void HostsAreAsked() { hosts_are_asked_ = true; }
  [[nodiscard]] const BringUpMark& mark() const { return mark_; }

 private:
  BringUpMark mark_;
  std::string id_;
  bool hosts_are_asked_ = false;
};

class Launch {
 public:
  // What a launch leaves to the one that takes its place.
  struct Heritage {
    std::unique_ptr<Interrupts> interrupts;  // so that Ctrl-C is heard at every moment
    std::string replaced;                    // as replaced_
    bool shared_was_looked_at = false;       // by its rehearsal, which has said what it found
    std::optional<TimePoint> waits_until;    // as waits_until_
  };

  // `heritage`: of a launch by which this plan has been described.
  Launch(const Plan& plan, const UpArguments& arguments,
         std::optional<Heritage> heritage = std::nullopt)
      : interrupts_(heritage ? std::move(heritage->interrupts) : std::make_unique<Interrupts>()),
        replaced_(heritage ? std::move(heritage->replaced) : ""),
        plan_(plan),
        arguments_(arguments),
        is_first_(!heritage),
        shared_was_looked_at_(heritage && heritage->shared_was_looked_at),
        waits_until_(heritage ? heritage->waits_until : std::nullopt),
        hashes_(plan.workdir.value_or("")),
        record_(MakeRecord(plan, NewJobId(plan.name), "")),
        beside_(RunningBeside(record_, plan)) {
    record_.origin.version = VersionLine();
    // Whose {keep} it would be, others may ask before this is through.
    if (plan.workdir) record_.origin.workdir = plan.workdir->string();
    record_.labels = LabelsOf(arguments);
    // A closed terminal rolls back, as Ctrl-C does: nobody would, later.
    interrupts_->HearHangUp();
    mark_.emplace(record_);
    Heeding([this] { Load(); });
  }

  int Run() {
    std::vector<JobRecord> running;
    Heeding([&] { running = RunningNow(); });
    LeaveIfToStop();
    if (!running.empty() && !arguments_.replace) {
      mark_.reset();
      return JoinIt(plan_, running[0], *interrupts_, arguments_);
    }
    LookWhoseIsKept();  // before anything is ended
    if (SayIfOneBesideWasStopped()) return kExitInterrupted;
    if (!running.empty()) return Replace(running);
    mark_->HostsAreAsked();
    SaveRecord(record_);
    cargo_.before_commit = [record = record_]() mutable {
      record.last_seen.may_have_begun = true;
      SaveRecord(record);
    };
    AskGit();
    const TimePoint begin = SystemClock().Now();
    Deployment::Outcome outcome;
    FilesSent sent;
    {
      Deployment deployment(plan_, cargo_);
      const bool through = Wait(deployment);
      SaySetUpLines(deployment);
      left_ = deployment.HostsNotRolledBack();
      // Threads may sit in a connect that takes its full time limit; nothing of the job can come of
      // them any more, so the process ends under them.
      if (!through) LeaveInterrupted();
      outcome = deployment.TakeOutcome();
      sent = deployment.Sent();
    }
    if (arguments_.timeline) {
      SayTimeline(outcome, SystemClock().Now() - begin);
      SayFiles(sent);
    }
    in_doubt_ = outcome.in_doubt;
    record_.bases = outcome.bases;
    record_.base_ids = outcome.base_ids;
    if (!arguments_.quiet) SayWhatIsRemoved(outcome.removed);
    if (outcome.committed) SayWhatHostsHave(outcome);
    if (outcome.committed) SayWhatIsLeftBehind();
    if (outcome.committed) return Committed(std::move(outcome.coordinator));
    return Failed(outcome);
  }

 private:
  // Runs what may take long on another thread: Ctrl-C, or `down`, ends the process under it.
  void Heeding(const std::function<void()>& work) {
    auto done = std::async(std::launch::async, work);
    while (done.wait_for(kLookForStop) != std::future_status::ready) LeaveIfToStop();
    done.get();
  }

  // Reads and packs what is sent.
  void Load() {
    WorkdirLook look = LookThroughWorkdir(plan_, is_first_ && !arguments_.quiet);
    listing_ = std::move(look.listing);
    missing_scripts_ = std::move(look.of_scripts);
    cargo_ = LoadCargo(plan_, record_.id, listing_, hashes_, arguments_);
    record_.plan_sha256 = cargo_.job.plan_sha256;
    if (plan_.workdir) {
      record_.files = HashesByPath(listing_, hashes_);
      record_.origin.workdir_hash = cargo_.workdir->Hash();
      hashes_.Save();
    }
    for (const auto& data : cargo_.data) {
      record_.files[std::string(kDataInRecord) + data->name()] =
          data->key().substr(0, kDigitsInRecord);
    }
    if (!is_first_ || arguments_.quiet) return;
    SayData();
    SayImages();
  }

  // By Ctrl-C, or by `down`, here or of another machine (`is_ended`); says which.
  bool IsToStop(std::string_view then, bool is_ended = false) {
    if (mark_) mark_->mark().KeepFresh();
    const bool interrupted = interrupts_->Take() > 0;
    if (!interrupted && !is_ended && !(mark_ && mark_->mark().IsAskedToStop())) return false;
    interrupted_ = true;
    Say("tfdist: {}{}\n", interrupted ? "interrupted" : "ended by tfdist down", then);
    return true;
  }

  void LeaveIfToStop() {
    if (IsToStop("")) LeaveInterrupted();
    if (SayIfOneBesideWasStopped()) Leave();
  }

  [[nodiscard]] bool SayIfOneBesideWasStopped() const {
    const auto stopped = std::ranges::find_if(beside_, WasStopped);
    if (stopped != beside_.end()) (void)SayThatItWasStopped(*stopped);
    return stopped != beside_.end();
  }

  static std::vector<std::string> RunningBeside(const JobRecord& record, const Plan& plan) {
    std::vector<std::string> ids;
    for (const JobRecord& known : LoadRecords()) {
      if (known.name == record.name && HasFirstHostOf(known, plan) &&
          known.last_seen.stage == LastSeen::Stage::kRunning) {
        ids.push_back(known.id);
      }
    }
    return ids;
  }

  void SayImages() const {
    for (const auto& parts : cargo_.images) {
      const ImagePlan& image = parts->image();
      Say("tfdist: image {}: sha256:{}, {}, on the hosts {}\n", SourceText(image),
          image.key.substr(0, kDigitsInRecord), SizeText(image.size_bytes), image.reference);
    }
  }

  void SayData() const {
    for (const auto& data : cargo_.data) {
      const WorkdirListing& listing = data->listing();
      Say("tfdist: data {}: {}, {}\n", data->name(), Counted(listing.files, "file"),
          SizeText(listing.bytes));
      const auto out = LinksOut(data->root(), listing);
      if (out.empty()) continue;
      PrintWarning(
          fmt::format("links of data {} lead out of it, and what they lead to is not sent: {}",
                      data->name(), SomeOf(out)),
          "copy it into the data, or put it on each host under that path");
    }
  }

  // The jobs of this plan, or with --replace of its name, that this machine has started and that run, as their coordinators
  // say now: there is nothing to bring up, and no record to make.
  [[nodiscard]] std::vector<JobRecord> RunningNow() const {
    std::vector<JobRecord> running;
    for (JobRecord& known : LoadRecords()) {
      const bool is_this = arguments_.replace ? IsOfThisProgram(known, plan_)
                                              : HasFirstHostOf(known, plan_) &&
                                                    known.plan_sha256 == record_.plan_sha256;
      if (is_this && known.name == record_.name &&
          known.last_seen.stage == LastSeen::Stage::kRunning && SaysThatItRuns(known)) {
        running.push_back(std::move(known));
      }
    }
    return running;
  }

  // What nobody answers is for those to say who bring the hosts up.
  static bool SaysThatItRuns(const JobRecord& record) {
    using protocol::JobPhase;
    try {
      const JobView view = LookAt(record, {}, kAskLimit);
      const JobPhase phase = view.state.phase;
      return view.live && (phase == JobPhase::kCommitted || phase == JobPhase::kRunning ||
                           phase == JobPhase::kRestarting);
    } catch (const Error&) {
      return false;
    }
  }

  // True when the hosts' threads are through, false when a roll-back took longer than its limit.
  bool Wait(Deployment& deployment) {
    const bool terminal = isatty(STDERR_FILENO) != 0;
    const TimePoint begin = SystemClock().Now();
    TimePoint next_word = begin + (terminal ? 1s : kSlowHost);
    std::optional<TimePoint> give_up;
    TimePoint looked = begin;
    while (true) {
      std::array<pollfd, 2> fds = {pollfd{deployment.DoneFd(), POLLIN, 0},
                                   pollfd{interrupts_->fd(), POLLIN, 0}};
      poll(fds.data(), fds.size(), 200);
      const TimePoint now = SystemClock().Now();
      if (now - looked > kStandsStill) stood_still_ += now - looked;
      looked = now;
      if (fds[0].revents != 0) return true;
      SaySetUpLines(deployment);
      if (!give_up && IsToStop(": rolling back", deployment.IsEnded())) {
        deployment.Cancel();
        give_up = now + kRollBackLimit;
        next_word = now + kSlowRollBack;
      }
      if (give_up && !deployment.Committing() &&
          (deployment.HostsNotRolledBack().empty() || now > *give_up)) {
        return false;
      }
      if (now >= next_word && (give_up || !arguments_.quiet)) {
        SayWhoIsSlow(deployment, now - begin, give_up.has_value());
        next_word = now + kSlowHost;
      }
    }
  }

  void SaySetUpLines(Deployment& deployment) {
    const std::vector<std::string> lines = deployment.TakeSetUpLines();
    if (arguments_.quiet || lines.empty()) return;
    if (!std::exchange(set_up_said_, true)) Say("tfdist: set-up: {}\n", SetUpText(plan_));
    for (const std::string& line : lines) Say("{}\n", line);
  }

  static void SayWhoIsSlow(const Deployment& deployment, TimePoint::duration waited,
                           bool rolls_back) {
    const auto busy = deployment.Busy();
    if (busy.empty()) return;
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(waited).count();
    const FilesSent sent = deployment.Sent();
    if (sent.hosts_done < sent.hosts && !rolls_back) {
      Say("tfdist: {} s: files: {} of {} sent ({} %); all are on {}\n", seconds,
          SizeText(sent.bytes_done), SizeText(sent.bytes),
          100 * sent.bytes_done / std::max<uint64_t>(sent.bytes, 1),
          CountedOf(sent.hosts_done, sent.hosts, "host"));
      return;
    }
    std::vector<std::string> all;
    for (const auto& [step, hosts] : busy)
      all.push_back(fmt::format("{}: {}", FoldHosts(hosts), step));
    const uint64_t pulled = deployment.PulledBytes();
    Say("tfdist: {} s: waiting for {}{}\n", seconds, fmt::to_string(fmt::join(all, "; ")),
        pulled == 0 || rolls_back
            ? ""
            : fmt::format("; about {} written there so far", SizeText(pulled)));
  }

  void SayWhatHostsHave(const Deployment::Outcome& outcome) const {
    if (!outcome.addresses.empty() && !arguments_.quiet) Say("tfdist: {}\n", outcome.addresses);
    for (const NameWarning& warning : outcome.warnings) PrintWarning(warning.text, warning.remedy);
    if (!shared_was_looked_at_) SayOfShared(outcome);
    // The refusal says whose it is.
    const bool is_strange = std::ranges::any_of(
        outcome.kept, [](const KeptOnHost& kept) { return kept.by.is_stranger; });
    if (!outcome.kept.empty() && !is_strange) SayWhatIsKept(outcome.kept);
  }

  static void SayOfShared(const Deployment::Outcome& outcome) {
    for (const NameWarning& one : outcome.warnings_of_shared) PrintWarning(one.text, one.remedy);
  }

  // Of its name, on other hosts: none of these refuses this one for it.
  [[nodiscard]] bool SayWhatRunsBeside() const {
    for (const JobRecord& known : LoadRecords()) {
      const bool may_run = known.name == record_.name && known.id != record_.id &&
                           known.last_seen.stage == LastSeen::Stage::kRunning;
      if (!may_run) continue;
      if (!SaysThatItRuns(known)) return false;  // of many that nobody has looked at one is asked
      std::vector<std::string> hosts;
      for (const HostPlan& host : known.hosts) hosts.push_back(host.name);
      PrintWarning(
          fmt::format("job {} runs beside this one, on {}: commands need the id of one", known.id,
                      FoldHosts(hosts)),
          fmt::format("tfdist down {} ends it{}; --name gives a job a name of its own", known.id,
                      IsOfThisProgram(known, plan_) ? ", as up --replace does" : ""));
      return true;
    }
    return false;
  }

  void SayWhatIsLeftBehind() const {
    if (SayWhatRunsBeside()) return;
    if (const auto warning = FilesLeftBehind(record_, LoadRecords())) {
      PrintWarning(warning->text, warning->remedy);
    }
  }

  static void SayWhatIsRemoved(const std::vector<std::string>& folders) {
    if (folders.empty()) return;
    Say("tfdist: removed {} old folder{} of finished jobs without files and output of tasks "
        "({}{}); "
        "agent.log on each host lists them\n",
        folders.size(), folders.size() == 1 ? "" : "s", folders.front(),
        folders.size() == 1 ? "" : ", ...");
  }

  void SayWhatIsKept(const std::vector<KeptOnHost>& kept) const {
    if (!arguments_.quiet) Say("tfdist: {}\n", KeptText(kept));
    if (const std::string who = KeptByOthers(kept); !who.empty() && !arguments_.quiet)
      Say("tfdist: {{keep}}: the last job that used it was started by {}\n", who);
    const auto records = LoadRecords();
    const JobRecord* last = LastThatKept(record_, records);
    if (last == nullptr) return;
    const auto left = HostsLeftBehind(record_, *last);
    const auto moved = TasksThatMoved(record_, *last);
    if (!left.empty()) {
      PrintWarning(
          fmt::format(
              "the last job called {} ran on {} too: what it kept there, no task of this job finds",
              record_.name, FoldHosts(left)),
          "use those hosts again, or copy its {keep} to a host of this job");
    } else if (!moved.empty()) {
      PrintWarning(
          fmt::format("{} ran on {} the last time, and finds what another task kept{}", moved[0].id,
                      last->hosts.at(static_cast<size_t>(moved[0].slot)).name,
                      moved.size() > 1 ? fmt::format(" (so do {} more)", moved.size() - 1) : ""),
          "name the hosts in the order of the last time, or keep checkpoints in a folder that all "
          "hosts share");
    }
  }

  // Two projects have a train.py: the second is not to go on from what the first has kept, or to write over it.
  void LookWhoseIsKept() const {
    const auto why = KeptByAnotherProject(record_, LoadRecords(), plan_.name_is_made);
    if (!why) return;
    if (!plan_.name_is_made) {
      if (is_first_) PrintWarning(why->cause(), why->remedy());
      return;
    }
    throw UsageError(*why);
  }

  void SayTimeline(const Deployment::Outcome& outcome, TimePoint::duration whole) const {
    std::vector<HostTimes> hosts;
    for (size_t slot = 0; slot < outcome.spent.size(); ++slot) {
      hosts.push_back({plan_.hosts[slot].name, outcome.spent[slot]});
    }
    const std::string text = TimelineText(std::move(hosts), whole);
    for (std::string_view rest = text; !rest.empty();) Say("{}\n", TakeUpTo('\n', rest));
  }

  static void SayFiles(const FilesSent& sent) {
    if (sent.hosts == 0) return Say("files: nothing was sent\n");
    Say("files: {} to {} host{}, {} sent\n", SizeText(sent.bytes), sent.hosts,
        sent.hosts == 1 ? "" : "s", SizeText(sent.wire_bytes));
  }

  [[noreturn]] void LeaveInterrupted() {
    KeepRecordIfNeeded("interrupted");
    if (in_doubt_) {
      SayThatItIsInDoubt();
    } else if (left_.empty()) {
      Say("tfdist: nothing was started{}\n", WhatWasEnded());
    } else {
      SayWhoIsLeft();
    }
    Leave();
  }

  // Threads may go on until then.
  [[noreturn]] void Leave() {
    mark_.reset();  // _exit runs no destructor
    fflush(nullptr);
    EndConnections();
    _exit(kExitInterrupted);
  }

  [[nodiscard]] std::string WhatWasEnded() const {
    return replaced_.empty() ? "" : fmt::format(", and job {} was ended for it", replaced_);
  }

  // Of a job that may exist or may have left something the record stays.
  void KeepRecordIfNeeded(const std::string& why) {
    if (!in_doubt_ && left_.empty()) return RemoveRecord(record_.id);
    if (!in_doubt_) record_.last_seen.stage = LastSeen::Stage::kNotStarted;
    record_.last_seen.may_have_begun = in_doubt_;
    record_.last_seen.why = why;
    TrySaveRecord(record_);
  }

  void SayThatItIsInDoubt() const {
    Say("tfdist: it is not known whether the job began: tfdist status {0}, tfdist down {0}\n",
        record_.id);
  }

  void SayWhoIsLeft() const {
    for (const std::string& host : left_) {
      Say("tfdist: {}: not confirmed; the agent there removes itself within 60 s\n", host);
    }
  }

  // While the hosts are brought up.
  void AskGit() {
    if (!plan_.workdir) return;
    git_ = std::async(std::launch::async, [folder = *plan_.workdir] {
      return GitStateOf(folder, SystemClock().Now() + kGitLimit);
    });
  }

  void NoteGit() {
    const auto git = git_.valid() ? git_.get() : std::nullopt;
    if (!git) return;
    record_.origin.git_commit = git->commit;
    record_.origin.git_changed = git->changed;
  }

  int Committed(Attached coordinator) {
    NoteGit();
    record_.last_seen.stage = LastSeen::Stage::kRunning;
    record_.last_seen.may_have_begun = true;
    record_.last_seen.began_ns = WallClockNanoseconds();
    TrySaveRecord(record_);
    mark_.reset();
    interrupts_->LetHangUpEnd();
    if (interrupted_) return EndAtOnce();
    const std::string size =
        Counted(plan_.tasks.size(), "task") + " on " + Counted(CountHosts(plan_.hosts), "host");
    if (arguments_.detach) return Started(size);
    if (!arguments_.quiet) {
      Say("tfdist: job {}: {}; Ctrl-C ends it, a closed terminal or a lost connection does "
          "not\n",
          record_.id, size);
    }
    // A signal to the srun of an agent's own step would end the step: SrunTransport.
    if (!record_.hosts[0].slurm_job.empty()) coordinator = {};
    return Follow(record_, std::move(coordinator), *interrupts_, Started::kHere, arguments_);
  }

  [[nodiscard]] int Started(const std::string& size) const {
    return TellJob(record_, [&] {
      if (arguments_.json) {
        PrintUpAsJson(plan_, record_.id, false);
      } else if (arguments_.quiet) {
        Print("{}\n", record_.id);
      } else {
        Print("tfdist: job {}: {} started\n", record_.id, size);
      }
    });
  }

  // The interrupt came too late to take the commit back.
  int EndAtOnce() {
    const EndAtInterrupt ends([this] { return fmt::format("job {} may be ending", record_.id); },
                              *interrupts_);
    const EndReport report = EndJob(record_, true);
    PrintEndReport(record_, report);
    return kExitInterrupted;
  }

  int Failed(const Deployment::Outcome& outcome) {
    if (interrupted_ || (outcome.ended && IsToStop("", true))) LeaveInterrupted();
    KeepRecordIfNeeded(WhyOf(outcome));
    if (IsRefusedByKept(outcome)) {
      Say("tfdist: nothing was started\n");
      return kExitUsage;
    }
    if (HostsGaveUpThisOne(outcome)) return StartAfterStanding();
    if (const auto plan = PlanWithSpares(outcome)) return StartWithSpares(*plan, outcome);
    if (const auto source = SourceWithOtherPorts(outcome)) return StartWithOtherPorts(*source);
    if (IsToWait(outcome)) return StartAfterTheOther();
    // Where another job has the name, these are that job's files.
    if (!outcome.name_taken) SayWhatHostsHave(outcome);
    const bool runs = outcome.name_taken && !MayBeBeingStarted(outcome);
    if (runs && IsTaken(outcome) && left_.empty()) return TakenOver(outcome);
    PrintFailures(outcome);
    if (in_doubt_) {
      SayThatItIsInDoubt();
    } else {
      Say("tfdist: {} could not be brought up; nothing was started{}\n",
          CountedOf(HostsThatFailed(outcome), CountHosts(plan_.hosts), "host"), WhatWasEnded());
    }
    return kExitHost;
  }

  [[nodiscard]] bool IsRolledBack(const Deployment::Outcome& outcome) const {
    return !in_doubt_ && left_.empty() && outcome.roll_back_errors.empty();
  }

  // Ctrl-Z stopped this process for longer than hosts wait for it: they are not to blame.
  [[nodiscard]] bool HostsGaveUpThisOne(const Deployment::Outcome& outcome) const {
    constexpr auto kHostsWait = 20s;
    return stood_still_ > kHostsWait && !outcome.failures.empty() && IsRolledBack(outcome) &&
           std::ranges::none_of(outcome.failures,
                                [](const auto& failure) { return failure.refusal.has_value(); });
  }

  int StartAfterStanding() {
    Say("tfdist: `up` itself stood still for {} s (Ctrl-Z?), and its hosts have given it up; "
        "starting again\n",
        std::chrono::duration_cast<std::chrono::seconds>(stood_still_).count());
    return StartAgain(plan_, arguments_);
  }

  // What a host refuses, a login too, and a changed host key are for the user to mend; spare hosts are for one that cannot
  // be reached.
  [[nodiscard]] std::optional<Plan> PlanWithSpares(const Deployment::Outcome& outcome) const {
    if (outcome.failures.empty() || !IsRolledBack(outcome)) return std::nullopt;
    std::vector<std::string> failed;
    for (const auto& failure : outcome.failures) {
      if (!failure.unreachable) return std::nullopt;
      failed.push_back(failure.error.host());
    }
    return WithSparesFor(plan_, failed);
  }

  // Two jobs may have drawn one port (ports = "auto"), or any program has it.
  [[nodiscard]] std::optional<PlanSource> SourceWithOtherPorts(
      const Deployment::Outcome& outcome) const {
    constexpr int kMostDraws = 5;
    const bool is_rolled_back = IsRolledBack(outcome);
    PlanSource source = arguments_.source;
    const bool may = plan_.draws_ports && is_rolled_back && !IsReadOnce(source.file) &&
                     ++source.port_draw < kMostDraws && !outcome.failures.empty();
    const bool is_port = std::ranges::all_of(outcome.failures, [](const auto& failure) {
      return failure.refusal == protocol::RefusalKind::kPortTaken;
    });
    if (!may || !is_port) return std::nullopt;
    if (!plan_.file.empty()) source.file = plan_.file.string();
    const Error& error = outcome.failures.front().error;
    if (!arguments_.quiet)
      Say("tfdist: {}: {}; drawing other ports\n", error.host(), error.cause());
    return source;
  }

  int StartWithOtherPorts(const PlanSource& source) {
    UpArguments again = arguments_;
    again.source = source;
    return StartAgain(LoadPlan(source), again);
  }

  // As far as is known here: a host may say anything of a job that runs elsewhere.
  [[nodiscard]] bool MayBeBeingStarted(const Deployment::Outcome& outcome) const {
    const auto& taken = outcome.name_taken;
    if (!taken || taken->committed() || !layout::IsJobIdOf(taken->job(), plan_.name)) return false;
    const auto known = Known(taken->job());
    return !known || HasHost(*known, plan_.hosts.at(outcome.taken_slot), plan_.ssh);
  }

  // A job of its name that is being started may come to nothing.
  bool IsToWait(const Deployment::Outcome& outcome) {
    const bool is_rolled_back = !in_doubt_ && left_.empty() && outcome.roll_back_errors.empty();
    if (!is_rolled_back || !MayBeBeingStarted(outcome)) return false;
    const TimePoint now = SystemClock().Now();
    if (!waits_until_) {
      waits_until_ = now + kOtherStartLimit;
      if (!arguments_.quiet) {
        Say("tfdist: {}: job {}, which has this name, is being started: waiting for it\n",
            plan_.hosts.at(outcome.taken_slot).name, outcome.name_taken->job());
      }
    }
    return now < *waits_until_;
  }

  // Pauses become longer: many hosts are asked each time.
  int StartAfterTheOther() {
    const auto waited = SystemClock().Now() - (*waits_until_ - kOtherStartLimit);
    const auto pause = std::max<TimePoint::duration>(kPauseBeforeStart, waited / 4);
    Heeding([pause] { std::this_thread::sleep_for(pause); });
    cargo_ = {};
    return StartAgain(plan_, arguments_);
  }

  // In the place of this launch, which has been rolled back.
  int StartAgain(const Plan& plan, const UpArguments& arguments) {
    mark_.reset();
    Launch launch(plan, arguments,
                  Heritage{std::move(interrupts_), replaced_, shared_was_looked_at_, waits_until_});
    // The same `up` is to find this job again.
    launch.record_.plan_sha256 = launch.cargo_.job.plan_sha256 = record_.plan_sha256;
    return launch.Run();
  }

  int StartWithSpares(const Plan& plan, const Deployment::Outcome& outcome) {
    PrintFailures(outcome);
    for (size_t slot = 0; slot < plan.hosts.size(); ++slot) {
      if (plan.hosts[slot].name == plan_.hosts[slot].name) continue;
      Say("tfdist: spare host {} takes the place of {}\n", plan.hosts[slot].name,
          plan_.hosts[slot].name);
    }
    return StartAgain(plan, arguments_);
  }

  // Where the new first host lets the job in, another one has to run a job of this machine's, from another plan: the first host
  // of this one would have said so itself, and has not answered perhaps.
  [[nodiscard]] bool IsTaken(const Deployment::Outcome& outcome) const {
    if (!outcome.name_taken || outcome.taken_slot == 0) return outcome.name_taken.has_value();
    const auto known = Known(outcome.name_taken->job());
    return known && outcome.name_taken->plan_sha256() != record_.plan_sha256 &&
           HasHost(*known, plan_.hosts.at(outcome.taken_slot), plan_.ssh);
  }

  // What else hosts lack is no matter for a job that runs from this plan, and --replace finds it once more.
  int TakenOver(const Deployment::Outcome& outcome) {
    mark_.reset();
    const protocol::NameTaken& taken = *outcome.name_taken;
    const bool is_another = taken.plan_sha256() != record_.plan_sha256;
    if (is_another && !arguments_.replace) PrintErrors(FaultsBesideTheName(outcome));
    JobRecord running;
    {
      const EndAtInterrupt ends([] { return "nothing was started"; }, *interrupts_);
      running = KnownOrAdopted(plan_, outcome.taken_slot, taken.job());
    }
    if (arguments_.replace && MayBeReplaced(running, plan_)) return Replace({std::move(running)});
    return Join(plan_, outcome, running, record_, *interrupts_, arguments_);
  }

  // Ports that are in use are, as far as one knows here, those of the job that has the name.
  [[nodiscard]] std::vector<Error> FaultsBesideTheName(const Deployment::Outcome& outcome) const {
    std::vector<Error> errors;
    for (const auto& failure : outcome.failures) {
      const bool is_the_name = failure.refusal == protocol::RefusalKind::kNameTaken &&
                               failure.error.host() == plan_.hosts.at(outcome.taken_slot).name;
      const bool is_kept = std::ranges::any_of(outcome.kept, [&](const KeptOnHost& kept) {
        return kept.by.is_stranger && kept.host == failure.error.host();
      });
      if (is_the_name || is_kept || failure.refusal == protocol::RefusalKind::kPortTaken) continue;
      errors.push_back(failure.error);
    }
    return errors;
  }

  // Under a name of its own the new job comes as far as the commit, while the other one runs.
  [[nodiscard]] Deployment::Outcome Rehearse(const JobRecord& running) {
    constexpr size_t kMostNameBytes = 40;
    cargo_.job.name = plan_.name.substr(0, kMostNameBytes) + ".next";
    cargo_.job.job = NewJobId(cargo_.job.name);
    record_.id = cargo_.job.job;
    record_.name = cargo_.job.name;
    Deployment deployment(plan_, cargo_, running.id);
    const bool through = Wait(deployment);
    SaySetUpLines(deployment);
    left_ = deployment.HostsNotRolledBack();
    if (!through || interrupted_) LeaveInterrupted();
    if (IsToStop("", deployment.IsEnded())) LeaveInterrupted();
    return deployment.TakeOutcome();
  }

  static int SayThatItWasStopped(const std::string& id) {
    Say("tfdist: job {} was ended by tfdist down meanwhile: nothing was started in its place\n",
        id);
    return kExitInterrupted;
  }

  // By `down`, by which the user wants no job of this name; Ctrl-C in its own `up` may well make room for this one.
  static bool WasStopped(const std::string& id) {
    const auto known = Known(id);
    return known && known->last_seen.stage == LastSeen::Stage::kEnded &&
           known->last_seen.result == "stopped" && known->last_seen.why == WhyEndedBy(kDownCommand);
  }

  void AskBeforeItEndsAnother(const JobRecord& running) {
    const std::string what = fmt::format("job {} runs, which was started {}", running.id,
                                         !running.elsewhere           ? "from " + ProjectOf(running)
                                         : running.started_by.empty() ? "on another machine"
                                                                      : "by " + running.started_by);
    bool confirmed = false;
    if (HasTerminal()) {
      Heeding([&] { confirmed = IsConfirmed(what + ": end it, and start this one?"); });
    }
    if (confirmed) return;
    throw UsageError(
        Phase::kUsage, fmt::format("nothing was started: {}, and runs on", what),
        fmt::format("--name NAME gives this program's jobs a name of their own; tfdist down {} "
                    "ends that one; --name {} --replace replaces it",
                    running.id, running.name));
  }

  // What would stop the new job is found before the one that runs is ended.
  int Replace(const std::vector<JobRecord>& all_running) {
    mark_.reset();
    const JobRecord& running = all_running.front();
    // Two projects have a train.py, or two people the file of one project, and the command line does not name either job.
    const bool is_anothers =
        arguments_.source.job.name.empty() &&
        (running.elsewhere || (plan_.name_is_made && !OtherFolder(record_, running).empty()));
    const JobsMeant meant{.named = !is_anothers,
                          .running = all_running.size(),
                          .finished = 0,
                          .of_another_project = arguments_.source.job.name.empty() &&
                                                IsOfAnotherProject(running, plan_)};
    const Consent consent = ConsentFor(Deed::kReplace, meant);
    if (consent == Consent::kRefused) {
      std::vector<const JobRecord*> ambiguous;
      for (const JobRecord& one : all_running) ambiguous.push_back(&one);
      FailAmbiguous(ambiguous);
    }
    if (consent == Consent::kAsked) AskBeforeItEndsAnother(running);
    if (!missing_scripts_.empty()) {
      const WorkdirWarning& missing = missing_scripts_.front();
      throw UsageError(
          Phase::kCommand,
          fmt::format("{}: nothing was started, and job {} runs on", missing.text, running.id),
          fmt::format("{}; if the command is right, tfdist down {} first", missing.remedy,
                      running.id));
    }
    const Deployment::Outcome outcome = Rehearse(running);
    // A host that cannot be asked to go back could not be brought up again either.
    if (!outcome.failures.empty() || !left_.empty()) return FailedRehearsal(outcome, running);
    if (WasStopped(running.id)) return SayThatItWasStopped(running.id);
    SayOfShared(outcome);  // while Ctrl-C can still leave that one running
    const EndReport report = EndForThis(running);
    if (HoldsWhatThisNeeds(running, report)) {
      Say("tfdist: nothing was started in its place: what is left of it may hold ports and GPUs\n");
      return kExitJobFailed;
    }
    UpArguments again = arguments_;
    again.replace = false;  // once: two that replace each other would never end
    again.set_up = false;   // the rehearsal has run it
    return Launch(plan_, again, Heritage{std::move(interrupts_), running.id, true, {}}).Run();
  }

  // What is left of it on other hosts takes no port or GPU of this one.
  [[nodiscard]] bool HoldsWhatThisNeeds(const JobRecord& running, const EndReport& report) const {
    JobRecord left = running;
    left.hosts.clear();
    for (const auto* names : {&report.unconfirmed, &report.unreachable}) {
      for (const std::string& name : *names) {
        const auto host = std::ranges::find(running.hosts, name, &HostPlan::name);
        if (host == running.hosts.end()) return true;  // who knows which one that is
        left.hosts.push_back(*host);
      }
    }
    return std::ranges::any_of(
        plan_.hosts, [&](const HostPlan& host) { return HasHost(left, host, plan_.ssh); });
  }

  [[nodiscard]] EndReport EndForThis(const JobRecord& running) const {
    EndReport report;
    {
      const auto words = [&running] {
        return fmt::format("job {} may be ending, and nothing was started in its place",
                           running.id);
      };
      const EndAtInterrupt ends(words, *interrupts_);
      report = EndJob(running, false, kReplaces);
    }
    PrintEndReport(running, report);
    return report;
  }

  int FailedRehearsal(const Deployment::Outcome& outcome, const JobRecord& running) {
    record_.bases = outcome.bases;
    record_.base_ids = outcome.base_ids;
    KeepRecordIfNeeded(WhyOf(outcome));
    if (IsRefusedByKept(outcome)) {
      Say("tfdist: nothing was started, and job {} runs on\n", running.id);
      return kExitUsage;
    }
    if (outcome.name_taken) return SayThatAnotherReplaces(outcome, running);
    PrintFailures(outcome);
    const std::string count =
        outcome.failures.empty()
            ? ""
            : fmt::format("{} could not be brought up; ",
                          CountedOf(HostsThatFailed(outcome), CountHosts(plan_.hosts), "host"));
    Say("tfdist: {}nothing was started, and job {} runs on\n", count, running.id);
    if (!left_.empty()) Say("  try: tfdist down {} ends what is left of the new one\n", record_.id);
    return kExitHost;
  }

  // Its rehearsal has the name of this one's.
  int SayThatAnotherReplaces(const Deployment::Outcome& outcome, const JobRecord& running) const {
    Say("tfdist: {}: another `tfdist up --replace` is about to replace job {}: nothing was "
        "started\n  try: the same command again, once that one is through (tfdist list)\n",
        plan_.hosts.at(outcome.taken_slot).name, running.id);
    return kExitNoJob;
  }

  // Then it has been said. Who joins a job, or hears that one of its name runs, has another matter.
  [[nodiscard]] bool IsRefusedByKept(const Deployment::Outcome& outcome) const {
    std::vector<KeptOnHost> strange;
    std::ranges::copy_if(outcome.kept, std::back_inserter(strange),
                         [](const KeptOnHost& kept) { return kept.by.is_stranger; });
    if (strange.empty() || outcome.name_taken || in_doubt_ || !left_.empty()) return false;
    PrintErrors({KeptByStrangers(plan_.name, strange)});
    return true;
  }

  static size_t HostsThatFailed(const Deployment::Outcome& outcome) {
    std::set<std::string> hosts;
    for (const auto& failure : outcome.failures) hosts.insert(failure.error.host());
    return hosts.size();
  }

  static std::string WhyOf(const Deployment::Outcome& outcome) {
    return outcome.failures.empty() ? "" : outcome.failures.front().error.what();
  }

  [[nodiscard]] Error WithTilde(const Error& error) const {
    const bool is_here = std::ranges::all_of(plan_.hosts, &HostPlan::local);
    const std::string quote =
        is_here || error.phase() != Phase::kCommand ? "" : QuoteTheTilde(error.cause());
    if (quote.empty()) return error;
    const std::string remedy = error.remedy().empty() ? quote : error.remedy() + "; " + quote;
    return Error(error.phase(), error.cause(), remedy).WithHost(error.host());
  }

  void PrintFailures(const Deployment::Outcome& outcome) const {
    std::vector<Error> errors;
    for (const auto& failure : outcome.failures) errors.push_back(WithTilde(failure.error));
    PrintErrors(errors);
    PrintErrors(outcome.roll_back_errors);
  }

  std::unique_ptr<Interrupts> interrupts_;
  std::string replaced_;  // id of the job that was ended for this one
  const Plan& plan_;
  UpArguments arguments_;
  const bool is_first_;
  const bool shared_was_looked_at_;
  // For the jobs of its name that are being started; nullopt: no host has named one.
  std::optional<TimePoint> waits_until_;
  WorkdirListing listing_;
  std::vector<WorkdirWarning> missing_scripts_;
  FileHashes hashes_;
  Cargo cargo_;
  JobRecord record_;
  std::vector<std::string> beside_;  // ids of jobs that have its name now
  std::optional<Announced> mark_;
  bool interrupted_ = false;
  bool set_up_said_ = false;
  std::future<std::optional<GitState>> git_;
  // What the deployment has come to.
  bool in_doubt_ = false;
  TimePoint::duration stood_still_{};  // while hosts were brought up
  std::vector<std::string> left_;
};

// What this machine does not let this process have would end `up` while hosts are brought up.
void CheckThisMachine(size_t hosts) try {
  constexpr uint64_t kLeastFileBytes = 1'000'000;  // a job's record; more where files are packed
  constexpr size_t kOtherThreads = 4;
  CheckRoomForStack(Phase::kUsage);
  CheckRoomForFiles(kLeastFileBytes, Phase::kUsage);
  CheckRoomForThreads(static_cast<int>(hosts + kOtherThreads), 0, Phase::kUsage);
} catch (const Error& error) {
  throw WithHost(UsageError(Phase::kUsage, error.cause(), error.remedy()), "this machine");
}

}  // namespace

int UpCommand(const UpArguments& arguments) {
  CheckThisMachine(1);
  Plan plan = LoadPlan(arguments.source);
  CheckThisMachine(plan.hosts.size());
  AskForHostNames(plan.hosts, plan.ssh);
  const bool is_longer = !plan.file.empty() && !arguments.source.job.command.empty();
  if (is_longer && !arguments.quiet) {
    Say("tfdist: command: {}\n", CommandAsWritten(plan, plan.tasks[0]));
  }
  return Launch(plan, arguments).Run();
}

}  // namespace tfdist::cli
