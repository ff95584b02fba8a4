#include "agent/setup/set_up_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "agent/census/census.h"
#include "agent/process/run_folder.h"
#include "agent/setup/set_up_folder.h"
#include "agent/setup/set_up_order.h"
#include "agent/tasks/command_search.h"
#include "agent/tasks/environment.h"
#include "agent/tasks/fill_path.h"
#include "agent/tasks/task_spec.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/text.h"

namespace tfdist::agent {
namespace {

using protocol::HostDescription;
using protocol::SetUpDescription;
using protocol::Text;

constexpr size_t kOutputPieceBytes = 32 << 10;
// More than so far behind the end, a reader is put near the end.
constexpr uint64_t kMostBehindBytes = 512 << 10;
constexpr uint64_t kNearBytes = 16 << 10;
constexpr uint64_t kLogLimitBytes = 16 << 20;
constexpr size_t kShownLastLines = 5;
constexpr size_t kShownLineBytes = 200;
constexpr std::chrono::seconds kEndLimit{3};
constexpr std::chrono::milliseconds kEndInterval{20};

// Not the job's id: paths of interpreters in scripts are short (execve(2): 127 bytes on Linux before 5.1).
std::string OwnRun(const SlotInfo& info) {
  constexpr size_t kDigits = 8;
  return Sha256Hex(CookieValue(info.job, info.slot)).substr(0, kDigits);
}

void FillDescription(HostDescription& description, const SlotInfo& info, const std::string& run) {
  FillPath(description.tasks, protocol::kSetUpPath,
           SetUpFolder(info.base, description.set_up->key).Run(run).string());
  description.set_up->made = run;
}

bool IsPathOfHost(const std::string& command) {
  return command.find('/') == command.npos || command.starts_with('/');
}

// `{setup}` is the folder that this slot is to make.
SetUpDescription Filled(SetUpDescription set_up, const SlotInfo& info) {
  const std::string path = SetUpFolder(info.base, set_up.key).Run(OwnRun(info)).string();
  for (Text& text : set_up.argv) FillPath(text, protocol::kSetUpPath, path);
  for (auto& [name, text] : set_up.env) FillPath(text, protocol::kSetUpPath, path);
  return set_up;
}

// As the cluster file has it, cut.
std::string AsWritten(const std::vector<Text>& argv) {
  constexpr size_t kMostShown = 80;
  std::string shown;
  for (const Text& word : argv) {
    if (!shown.empty()) shown += ' ';
    for (const Text::Part& part : word.parts) {
      if (const auto* literal = std::get_if<std::string>(&part)) shown += *literal;
      const auto* variable = std::get_if<protocol::HostVariable>(&part);
      if (variable != nullptr) shown += fmt::format("{{env:{}}}", variable->name);
    }
  }
  ReplaceAll(shown, protocol::kSetUpPath, "{setup}");
  return shown.size() <= kMostShown ? shown : shown.substr(0, kMostShown) + "...";
}

RunSpec SpecOfSetUp(const char* name, std::vector<Text> argv, const SetUpDescription& set_up,
                    const SlotFolder& folder, const SlotInfo& info) {
  protocol::TaskDescription task;
  task.task = name;
  task.argv = std::move(argv);
  task.env = set_up.env;
  task.merged_output = true;
  task.log_limit_bytes = kLogLimitBytes;
  task.grace_ms = 0;
  return MakePreflightSpec(task, folder, info, Environment::OfHost());
}

std::vector<std::string> LastLinesOf(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::string_view line = NewestFrame(TakeUpTo('\n', text));
    if (!line.empty()) lines.emplace_back(line.substr(0, kShownLineBytes));
    if (lines.size() > kShownLastLines) lines.erase(lines.begin());
  }
  return lines;
}

}  // namespace

bool FillIfMade(HostDescription& description, const SlotInfo& info) {
  if (!description.set_up) return true;
  if (description.set_up->again) return false;
  const auto run = UseSetUp(SetUpFolder(info.base, description.set_up->key));
  if (run) FillDescription(description, info, *run);
  return run.has_value();
}

void FillMade(HostDescription& description, const SlotInfo& info) {
  const auto run = SetUpFolder(info.base, description.set_up->key).Newest();
  if (!run) throw Error(Phase::kSetUp, "what it has made is not there any more");
  FillDescription(description, info, *run);
}

bool FillMade(std::vector<protocol::TaskDescription>& tasks, const std::string& key,
              const std::filesystem::path& base) {
  const SetUpFolder folder(base, key);
  const auto run = folder.Newest();
  if (run) FillPath(tasks, protocol::kSetUpPath, folder.Run(*run).string());
  return run.has_value();
}

std::filesystem::path SetUpMark(const HostDescription& description, const SlotInfo& info) {
  if (!description.set_up || description.set_up->made.empty()) return {};
  return SetUpFolder(info.base, description.set_up->key).Mark(description.set_up->made);
}

void PrepareSetUp(const HostDescription& description, const SlotFolder& folder,
                  const SlotInfo& info) {
  const SetUpDescription set_up = Filled(*description.set_up, info);
  const RunSpec command = SpecOfSetUp("[setup]", set_up.argv, set_up, folder, info);
  if (IsPathOfHost(command.argv.at(0))) CheckCommand(command);  // else it is one of the inputs
  MakePrivateFolder(folder.tasks());
  MakePrivateFolder(folder.TaskFolder(kSetUpTask));
  const std::vector<Text> role = {folder.executable().string(), "set-up",
                                  SetUpRunFolder(folder).string()};
  WriteRunSpec(SetUpRunFolder(folder), SpecOfSetUp(kSetUpTask, role, set_up, folder, info));
  WriteSetUpOrder(SetUpRunFolder(folder), {.base = info.base,
                                           .key = set_up.key,
                                           .run = OwnRun(info),
                                           .job = info.job,
                                           .work = folder.work().string(),
                                           .argv = command.argv,
                                           .shown = AsWritten(description.set_up->argv),
                                           .inputs = set_up.inputs,
                                           .timeout_ms = set_up.timeout_ms,
                                           .again = set_up.again});
}

SetUpLook::SetUpLook(const SlotFolder& folder)
    : folder_(folder), log_(folder.TaskFolder(kSetUpTask)) {}

protocol::SetUpProgress SetUpLook::From(uint64_t offset) {
  // In this order: what was written before its end is there then.
  const RunState state = ReadRunState(SetUpRunFolder(folder_));
  const bool over = state.exit.has_value() && !state.holder_running;
  const LogEnd end = over ? LogEnd::kClosed : LogEnd::kOpen;
  protocol::SetUpProgress progress;
  uint64_t from = std::max(offset, log_.FirstOffset());
  const uint64_t size = log_.Size(end);
  if (size > from + kMostBehindBytes) from = size - kNearBytes;
  protocol::LogPiece piece = log_.Read(from, kOutputPieceBytes, end);
  progress.left_out = std::max(piece.offset, offset) - offset;
  progress.offset = std::max(piece.offset, from) + piece.data.size();
  progress.output.value = std::move(piece.data);
  if (!over || !progress.output.value.empty()) return progress;
  ThrowIfFailed();
  progress.done = true;
  return progress;
}

void SetUpLook::ThrowIfFailed() {
  const RunState state = ReadRunState(SetUpRunFolder(folder_));
  const protocol::TaskExit& exit = *state.exit;
  if (exit.error.empty() && exit.signal == 0 && exit.code == 0) return;
  const auto failure = ReadSetUpFailure(SetUpRunFolder(folder_));
  std::string cause = failure               ? failure->cause()
                      : !exit.error.empty() ? exit.error
                      : exit.signal != 0
                          ? fmt::format("it was ended by signal {}", exit.signal)
                          : "it failed, and its reason could not be written: is the disk full?";
  if (exit.out_of_memory) cause += ", as the host is out of memory";
  const auto lines = LastLinesOf(log_.TextBefore(log_.Size(LogEnd::kClosed)));
  if (!lines.empty()) cause += fmt::format("; its last lines:\n{}", fmt::join(lines, "\n"));
  throw Error(Phase::kSetUp, cause, failure ? failure->remedy() : "");
}

SetUpStep::SetUpStep(EventLoop& loop, FileThread& files, KeeperLink& keeper,
                     const SlotFolder& folder)
    : files_(files),
      keeper_(keeper),
      folder_(folder),
      timer_(loop, [this] { LookWhetherOver(); }) {}

void SetUpStep::Start() { (void)keeper_.StartHolder(kSetUpTask, RunFolderName(1, 1)); }

void SetUpStep::End(std::function<void()> done) {
  waiting_.push_back(std::move(done));
  give_up_ = SystemClock().Now() + kEndLimit;
  (void)keeper_.KillHolder(kSetUpTask, RunFolderName(1, 1));
  LookWhetherOver();
}

void SetUpStep::LookWhetherOver() {
  files_.Post(
      [run_folder = SetUpRunFolder(folder_)] {
        if (!HasSpec(run_folder)) return true;
        const RunState state = ReadRunState(run_folder);
        return state.exit.has_value() && !state.holder_running;
      },
      [this](Outcome<bool>& over) {
        if (!over.Get() && SystemClock().Now() < give_up_) return timer_.Start(kEndInterval);
        for (const auto& done : std::exchange(waiting_, {})) done();
      });
}

}  // namespace tfdist::agent
