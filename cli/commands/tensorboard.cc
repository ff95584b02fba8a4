// `tfdist tensorboard [JOB] [TASK]`: TensorBoard where the event files are, shown here.

#include <fmt/format.h>
#include <poll.h>

#include <cerrno>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "base/failures.h"
#include "base/subprocess.h"
#include "cli/commands/commands.h"
#include "cli/commands/event_files.h"
#include "cli/commands/exit_codes.h"
#include "cli/commands/find_job.h"
#include "cli/commands/forwarder.h"
#include "cli/commands/report.h"
#include "cli/commands/sites.h"
#include "cli/commands/slow_notice.h"
#include "cli/commands/tensorboard_server.h"
#include "cli/stream/interrupts.h"
#include "cli/stream/line_printer.h"
#include "cli/stream/print.h"

namespace tfdist::cli {
namespace {

using namespace std::chrono_literals;
using Words = std::vector<std::string>;

constexpr auto kBoardListenLimit =
    120s;                          // TensorBoard imports TensorFlow first, where there is one
constexpr auto kShowTurn = 250ms;  // how late Ctrl-C may be seen
constexpr auto kFetchPause = 10s;
constexpr auto kLookPause = 2s;
constexpr auto kBrowserLimit = 10s;

// Where the event files are.
struct BoardPlace {
  std::string job;
  Sites where;  // one
  std::string folder;
  std::string folder_words;  // "the shared folder /mnt/out"

  [[nodiscard]] const Site& site() const { return where.sites.front(); }
};

class NothingYet : public Error {
 public:
  using Error::Error;
};

// By Ctrl-C, before anything was shown.
class Interrupted : public Error {
 public:
  Interrupted() : Error(Phase::kExec, "interrupted") {}
};

// The one that writes summaries in TensorFlow's own programs.
std::string Leader(const JobRecord& record) {
  for (const char* task : {"chief:0", "master:0", "worker:0"}) {
    if (HasTask(record, task)) return task;
  }
  return record.tasks.front().id;
}

Sites BoardSite(const JobRecord& record, const Words& given, const Words& rest) {
  Words words = {!given.empty() && LooksLikeAFile(given[0]) ? given[0] : record.id};
  words.insert(words.end(), rest.begin(), rest.end());
  if (rest.empty()) words.push_back(Leader(record));
  Sites sites = FindSites(words);
  if (sites.sites.size() == 1) return sites;
  throw UsageError(Phase::kUsage, "TensorBoard is for the event files of one task",
                   fmt::format("tfdist tensorboard {} {}", record.id, sites.sites[0].label()));
}

BoardPlace FindBoardPlace(const TensorBoardArguments& arguments) {
  const auto [record, rest] = FindJobAndWords(arguments.words, Purpose::kToLook);
  if (record.tasks.empty()) throw Error(Phase::kUsage, "the job has no task");
  BoardPlace place{.job = record.id,
                   .where = BoardSite(record, arguments.words, rest),
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

void ExpectEventFiles(const BoardPlace& place) {
  const EventFilesThere there = LookForEventFiles(place.site(), place.where.ssh, place.folder);
  if (there.any) return;
  throw WithHost(
      NothingYet(Phase::kFiles,
                 fmt::format("no event files yet: looked below {}{}", place.folder_words,
                             there.trouble.empty() ? "" : " (" + there.trouble + ")"),
                 "--wait for them, or say where the program writes them: --logdir FOLDER, or "
                 "logdir in [tensorboard] of the cluster file; another host: name its task"),
      place.site().host.name);
}

void AwaitEventFiles(const BoardPlace& place) {
  bool said = false;
  while (true) {
    try {
      return ExpectEventFiles(place);
    } catch (const NothingYet& nothing) {
      if (!std::exchange(said, true)) Say("tfdist: {}; waiting for them\n", nothing.what());
    }
    poll(nullptr, 0, std::chrono::milliseconds(kLookPause).count());
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

BoardStage PrepareBoard(const BoardPlace& place, bool fetch) {
  if (!fetch) {
    if (auto program = FindTensorBoard(place.site(), place.where.ssh)) {
      return {place.site(), *program, nullptr};
    }
  }
  auto program = FindTensorBoard(ThisMachine(), place.where.ssh);
  if (!program) {
    throw Error(Phase::kExec,
                fetch ? "TensorBoard is not installed on this machine"
                      : "TensorBoard is installed neither there nor on this machine",
                "python3 -m pip install tensorboard, on one of them, for the python3 in PATH")
        .WithHost(place.site().host.name);
  }
  auto copy = std::make_unique<EventFilesCopy>(place.site(), place.where.ssh, place.folder);
  copy->Update();
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

void UpdateCopy(EventFilesCopy& copy) {
  try {
    copy.Update();
  } catch (const Error& error) {
    PrintWarning(fmt::format("event files could not be fetched, trying again: {}", error.what()),
                 "");
  }
}

// Until Ctrl-C.
void ShowBoard(TensorBoardServer& server, Forwarder* forwarder, EventFilesCopy* copy,
               Interrupts& interrupts) {
  TimePoint next_fetch = SystemClock().Now() + kFetchPause;
  while (interrupts.Take() == 0) {
    server.Watch(SystemClock().Now() + kShowTurn);
    if (forwarder != nullptr) {
      if (const auto failure = forwarder->TakeFailure()) PrintError(*failure);
    }
    if (copy != nullptr && SystemClock().Now() >= next_fetch) {
      UpdateCopy(*copy);
      next_fetch = SystemClock().Now() + kFetchPause;
    }
  }
}

int AwaitBoardPort(TensorBoardServer& server, Interrupts& interrupts) {
  const TimePoint deadline = SystemClock().Now() + kBoardListenLimit;
  while (true) {
    if (interrupts.Take() > 0) throw Interrupted();
    if (const auto port = server.AwaitPort(SystemClock().Now() + kShowTurn)) return *port;
    if (SystemClock().Now() >= deadline) server.FailSilent();
  }
}

void RunBoard(const BoardPlace& place, const TensorBoardArguments& arguments) {
  std::optional<SlowNotice> notice;
  notice.emplace("looking for TensorBoard and event files on " + place.site().host.name);
  arguments.wait ? AwaitEventFiles(place) : ExpectEventFiles(place);
  Interrupts interrupts;  // from here on something must be ended
  const BoardStage stage = PrepareBoard(place, arguments.fetch);
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
    Print("{}\n", url);
    if (fflush(stdout) != 0) throw OutputClosed(errno);
    Say("tfdist: TensorBoard {} on {} shows {} of job {}{}; Ctrl-C ends it\n",
        stage.program.version, stage.site.host.name, place.folder_words, place.job,
        stage.copy ? ", fetched from " + place.site().host.name : "");
    if (arguments.open) OpenInBrowser(url);
    ShowBoard(server, forwarder ? &*forwarder : nullptr, stage.copy.get(), interrupts);
  } catch (const Error&) {
    server.End();
    throw;
  }
  server.End();
}

}  // namespace

int TensorBoardCommand(const TensorBoardArguments& arguments) {
  try {
    RunBoard(FindBoardPlace(arguments), arguments);
    return kExitSuccess;
  } catch (const Interrupted&) {
    return kExitInterrupted;
  }
}

}  // namespace tfdist::cli
