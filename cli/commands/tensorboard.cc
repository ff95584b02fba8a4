// `tfdist tensorboard [JOB] [TASK]`: TensorBoard where the event files are, shown here.

#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "base/failures.h"
#include "base/subprocess.h"
#include "cli/commands/commands.h"
#include "cli/exit_codes.h"
#include "cli/find/begun.h"
#include "cli/find/find_job.h"
#include "cli/find/other_hosts.h"
#include "cli/find/sites.h"
#include "cli/show/report.h"
#include "cli/show/slow_notice.h"
#include "cli/stream/interrupts.h"
#include "cli/stream/line_printer.h"
#include "cli/stream/print.h"
#include "cli/tensorboard/event_files.h"
#include "cli/tensorboard/forwarder.h"
#include "cli/tensorboard/host_answer.h"
#include "cli/tensorboard/tensorboard_server.h"

namespace tfdist::cli {
namespace {

using namespace std::chrono_literals;
using Words = std::vector<std::string>;

constexpr auto kBoardListenLimit =
    120s;                          // TensorBoard imports TensorFlow first, where there is one
constexpr auto kShowTurn = 250ms;  // how late Ctrl-C may be seen
constexpr auto kFetchPause = 10s;
constexpr auto kFirstLookPause = 1s;
constexpr auto kLongestLookPause = 20s;
constexpr auto kBrowserLimit = 10s;

// Where the event files are.
struct BoardPlace {
  JobRecord job;
  Sites where;  // one
  std::string folder;
  std::string folder_words;  // "the shared folder /mnt/out"

  [[nodiscard]] const Site& site() const { return where.sites.front(); }
  [[nodiscard]] bool is_on_first() const { return site().host.name == job.hosts[0].name; }
};

class NothingYet : public Error {
 public:
  using Error::Error;
};

// The one that writes summaries in TensorFlow's own programs.
std::string Leader(const JobRecord& record) {
  for (const char* task : {"chief:0", "master:0", "worker:0"}) {
    if (HasTask(record, task)) return task;
  }
  return record.tasks.front().id;
}

Sites BoardSite(const JobRecord& record, const Words& rest) {
  Words words = {record.id};
  words.insert(words.end(), rest.begin(), rest.end());
  if (rest.empty()) words.push_back(Leader(record));
  Sites sites = FindSites(words);
  if (sites.sites.size() == 1) return sites;
  throw UsageError(Phase::kUsage, "TensorBoard is for the event files of one task",
                   fmt::format("tfdist tensorboard {} {}", record.id, sites.sites[0].label()));
}

BoardPlace FindBoardPlace(const TensorBoardArguments& arguments) {
  const auto [found, rest] = FindJobAndWords(arguments.words, Deed::kLook);
  const JobRecord record = arguments.wait ? AwaitBegin(found) : found;
  if (record.tasks.empty()) throw Error(Phase::kUsage, "the job has no task");
  BoardPlace place{.job = record,
                   .where = BoardSite(record, rest),
                   .folder = arguments.logdir.empty() ? record.logdir : arguments.logdir,
                   .folder_words = {}};
  if (place.folder.empty()) place.folder = record.shared;
  const bool is_absolute = place.folder.starts_with('/');
  if (!is_absolute) place.folder = "./" + place.folder;
  place.folder_words = is_absolute ? place.folder
                                   : fmt::format("{} in the folder where {} starts", place.folder,
                                                 place.site().label());
  return place;
}

void ExpectEventFiles(const BoardPlace& place, HostTalk& talk) {
  const EventFilesThere there = LookForEventFiles(talk, place.folder);
  if (there.any) return;
  throw WithHost(
      NothingYet(Phase::kFiles,
                 fmt::format("no event files yet: looked below {}{}", place.folder_words,
                             there.trouble.empty() ? "" : " (" + there.trouble + ")"),
                 "--wait for them, or say where the program writes them: --logdir FOLDER, or "
                 "logdir in [tensorboard] of the cluster file; another host: name its task"),
      place.site().host.name);
}

// With growing pauses: they may never come, and a look costs the host a little.
void AwaitEventFiles(const BoardPlace& place, HostTalk& talk, bool is_beside_up) {
  bool is_said = is_beside_up;
  auto pause = std::chrono::milliseconds(kFirstLookPause);
  while (true) {
    try {
      return ExpectEventFiles(place, talk);
    } catch (const NothingYet& nothing) {
      if (!std::exchange(is_said, true)) Say("tfdist: {}; waiting for them\n", nothing.what());
    }
    poll(nullptr, 0, static_cast<int>(pause.count()));
    pause = std::min<std::chrono::milliseconds>(pause * 3 / 2, kLongestLookPause);
  }
}

// Where TensorBoard runs, and with what.
struct BoardStage {
  Site site;
  TensorBoardProgram program;
  std::unique_ptr<EventFilesCopy> copy;  // they were fetched to this machine
};

Site ThisMachine() {
  Site site;
  site.host.name = "this machine";
  site.host.local = true;
  return site;
}

void UpdateCopy(EventFilesCopy& copy) {
  for (const auto& trouble : copy.Update()) PrintWarning(trouble.what, trouble.remedy);
}

BoardStage PrepareBoard(const BoardPlace& place, HostTalk& talk, bool fetch,
                        Interrupts& interrupts) {
  if (!fetch) {
    if (auto program = FindTensorBoard(talk)) return {place.site(), *program, nullptr};
  }
  HostTalk here(ThisMachine(), {});
  here.Heed(interrupts);
  auto program = FindTensorBoard(here);
  if (!program) {
    throw Error(Phase::kExec,
                fetch ? "TensorBoard is not installed on this machine"
                      : "TensorBoard is installed neither there nor on this machine",
                "python3 -m pip install tensorboard, on one of them, for the python3 in PATH")
        .WithHost(place.site().host.name);
  }
  auto copy = std::make_unique<EventFilesCopy>(talk, place.folder);
  UpdateCopy(*copy);
  return {ThisMachine(), *program, std::move(copy)};
}

void OpenInBrowser(const std::string& url) {
  try {
    const ProgramResult result =
        RunProgram({.argv = {"xdg-open", url}}, SystemClock().Now() + kBrowserLimit);
    if (result.exit_code != 0) PrintWarning("xdg-open could not open it", "");
  } catch (const Error& error) {
    PrintWarning(error.what(), "open the address in a browser by hand");
  }
}

// Throws TalkInterrupted.
void KeepCopyUpToDate(EventFilesCopy& copy) {
  try {
    UpdateCopy(copy);
  } catch (const TalkInterrupted&) {
    throw;
  } catch (const Error& error) {
    PrintWarning(fmt::format("event files could not be fetched, trying again: {}", error.what()),
                 "");
  }
}

// Until Ctrl-C, which is TalkInterrupted where it comes while event files are fetched.
void ShowUntilInterrupted(TensorBoardServer& server, Forwarder* forwarder, EventFilesCopy* copy,
                          Interrupts& interrupts) {
  TimePoint next_fetch = SystemClock().Now() + kFetchPause;
  while (interrupts.Take() == 0) {
    server.Watch(SystemClock().Now() + kShowTurn);
    if (forwarder != nullptr) {
      if (const auto failure = forwarder->TakeFailure()) PrintError(*failure);
    }
    if (copy != nullptr && SystemClock().Now() >= next_fetch) {
      KeepCopyUpToDate(*copy);
      next_fetch = SystemClock().Now() + kFetchPause;
    }
  }
}

void ShowBoard(TensorBoardServer& server, Forwarder* forwarder, EventFilesCopy* copy,
               Interrupts& interrupts) {
  try {
    ShowUntilInterrupted(server, forwarder, copy, interrupts);
  } catch (const TalkInterrupted&) {
    // As it was asked to.
  }
}

int AwaitBoardPort(TensorBoardServer& server, Interrupts& interrupts) {
  const TimePoint deadline = SystemClock().Now() + kBoardListenLimit;
  while (true) {
    if (interrupts.Take() > 0) throw TalkInterrupted();
    if (const auto port = server.AwaitPort(SystemClock().Now() + kShowTurn)) return *port;
    if (SystemClock().Now() >= deadline) server.FailSilent();
  }
}

void SayWhere(const BoardPlace& place, const BoardStage& stage, const std::string& url,
              bool is_beside_up) {
  const std::string what =
      fmt::format("TensorBoard {} on {} for job {} ({}){}", stage.program.version,
                  stage.site.host.name, place.job.id, place.folder_words,
                  stage.copy ? ", fetched from " + place.site().host.name : "");
  if (is_beside_up) {
    Say("tfdist: {}: {}\n", what, url);
    return;
  }
  Print("{}\n", url);
  FlushOutput();
  Say("tfdist: {}; Ctrl-C ends it\n", what);
}

// Its host does not answer; others may.
Error WithAnotherTask(const BoardPlace& place, const Error& error) {
  Error why = place.is_on_first() ? WhyFirstIsSilent(place.job, error) : error;
  for (const JobRecord::Task& task : place.job.tasks) {
    const std::string& host = place.job.hosts[static_cast<size_t>(task.slot)].name;
    if (host == place.site().host.name) continue;
    return Error(why.phase(), why.cause(),
                 fmt::format("the event files of another task: tfdist tensorboard {} {}; {}",
                             place.job.id, task.id, why.remedy()))
        .WithHost(why.host());
  }
  return why;
}

void RunBoard(const BoardPlace& place, const TensorBoardArguments& arguments) {
  const bool is_beside_up = arguments.beside != 0;
  std::optional<SlowNotice> notice;
  if (!is_beside_up) {
    notice.emplace("looking for TensorBoard and event files on " + place.site().host.name);
  }
  HostTalk talk(place.site(), place.where.ssh,
                place.is_on_first() ? IsFirstOff(place.job) : nullptr);
  try {
    arguments.wait ? AwaitEventFiles(place, talk, is_beside_up) : ExpectEventFiles(place, talk);
  } catch (const Unreachable& error) {
    throw WithAnotherTask(place, error);
  }
  Interrupts interrupts;  // from here on something must be ended
  talk.Heed(interrupts);
  const BoardStage stage = PrepareBoard(place, talk, arguments.fetch, interrupts);
  const std::string folder = stage.copy ? stage.copy->path().string() : place.folder;
  TensorBoardServer server(stage.site, place.where.ssh, stage.program, folder);
  try {
    int port = AwaitBoardPort(server, interrupts);
    std::optional<Forwarder> forwarder;
    if (!stage.site.host.local) {
      forwarder.emplace(stage.site.host, place.where.ssh, port, arguments.port);
      port = forwarder->port();
    }
    notice.reset();
    const std::string url = fmt::format("http://127.0.0.1:{}/", port);
    SayWhere(place, stage, url, is_beside_up);
    if (arguments.open) OpenInBrowser(url);
    ShowBoard(server, forwarder ? &*forwarder : nullptr, stage.copy.get(), interrupts);
  } catch (const Error&) {
    server.End();
    throw;
  }
  server.End();
}

// `up` is the parent, and gets SIGKILL, too.
void EndWithUp(int parent) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) throw TalkInterrupted();
}

// What `up` tells its user in place of an error: its job goes on.
void WarnUp(const Error& error, const TensorBoardArguments& arguments) {
  PrintWarning(fmt::format("no TensorBoard: {}", error.what()),
               error.remedy().empty()
                   ? fmt::format("tfdist tensorboard {}", fmt::join(arguments.words, " "))
                   : error.remedy());
}

}  // namespace

int TensorBoardCommand(const TensorBoardArguments& arguments) {
  try {
    if (arguments.beside != 0) EndWithUp(arguments.beside);
    RunBoard(FindBoardPlace(arguments), arguments);
    return kExitSuccess;
  } catch (const TalkInterrupted&) {
    return kExitInterrupted;
  } catch (const Error& error) {
    if (arguments.beside == 0) throw;
    WarnUp(error, arguments);
    return kExitHost;
  }
}

}  // namespace tfdist::cli
