#include "agent/check/host_facts.h"

#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <future>
#include <iterator>
#include <limits>
#include <set>
#include <system_error>

#include "agent/census/process_table.h"
#include "agent/check/host_settings.h"
#include "agent/check/networks.h"
#include "agent/check/plan_ports.h"
#include "agent/check/programs.h"
#include "agent/control/host_names.h"
#include "agent/data/data_paths.h"
#include "agent/setup/set_up_step.h"
#include "agent/slot/kept_folder.h"
#include "agent/slot/slot_folder.h"
#include "agent/slot/this_machine.h"
#include "agent/tasks/command_search.h"
#include "agent/tasks/container_preflight.h"
#include "agent/tasks/gpu_check.h"
#include "agent/tasks/preflight.h"
#include "agent/tasks/program_questions.h"
#include "agent/tasks/task_spec.h"
#include "base/error.h"
#include "base/file.h"
#include "base/inner_command.h"
#include "base/process_limits.h"
#include "job/layout.h"
#include "wire/room.h"

namespace tfdist::agent {
namespace {

namespace fs = std::filesystem;
using protocol::HostFacts;
using protocol::Survey;
using protocol::TaskDescription;
using protocol::Trouble;

// A resolver that does not know a name may take seconds for each.
constexpr size_t kResolversAtATime = 8;
constexpr int kThreadsOfAnAgent = 6;  // as start/create_slot.cc has it
constexpr size_t kCheckStackBytes = 64 << 10;
constexpr std::array<std::string_view, 4> kPythonSettings = {"PATH", "PYTHONPATH", "PYTHONHOME",
                                                             "LD_LIBRARY_PATH"};

std::optional<Trouble> FindHiddenProcesses() {
  const std::string hidden_by = ProcessesHiddenBy();
  if (hidden_by.empty()) return std::nullopt;
  return Trouble{fmt::format("/proc is mounted with {}: it hides what is not dumpable, such as "
                             "ssh-agent, from its own account. "
                             "`down` ends it, but for what stays when tfdist's own processes are "
                             "killed, and then says so",
                             hidden_by),
                 "mount /proc without hidepid, or with gid= of a group that this account is in"};
}

void LookAtDisk(const fs::path& base, HostFacts& facts) {
  struct statvfs info {};
  if (statvfs(base.c_str(), &info) != 0) {
    throw Error(Phase::kFiles, WithErrno(base.string(), errno));
  }
  facts.disk_free_bytes = uint64_t{info.f_bavail} * info.f_frsize;
  // Some file systems do not count files.
  facts.files_free = info.f_files == 0 ? std::numeric_limits<int64_t>::max() : info.f_favail;
}

uint64_t KeptBytes(const fs::path& files) {
  uint64_t bytes = 0;
  std::error_code error;
  // Not a range's for: its ++ throws.
  for (fs::directory_iterator entry(files, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    std::error_code gone;
    const auto size = entry->file_size(gone);
    if (!gone) bytes += size;
  }
  return bytes;
}

// A check leaves nothing, so that it makes no folder either.
std::optional<Trouble> FindReadOnly(const fs::path& base) {
  for (const fs::path& folder : {base, base / layout::kJobs, base / layout::kFiles}) {
    if (access(folder.c_str(), W_OK | X_OK) == 0 || errno == ENOENT) continue;
    return Trouble{WithErrno(fmt::format("cannot make a folder in {}", folder.string()), errno),
                   std::string(kWritableRemedy)};
  }
  return std::nullopt;
}

// As the task would be started, in a folder that there is not.
RunSpec SpecOf(const TaskDescription& task, const SlotFolder& folder) {
  return MakePreflightSpec(task, folder, SlotInfo(), Environment::OfHost());
}

// False: the host lacks what the task's environment is to be; FindCommandTroubles says what.
bool HasSpec(const TaskDescription& task, const SlotFolder& folder) {
  try {
    (void)SpecOf(task, folder);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// What the job brings with it is not there yet: its runtime, and what is in the work folder.
bool IsBrought(const fs::path& path, const SlotFolder& folder) {
  return path.string().starts_with(folder.path().string() + '/');
}

bool IsBrought(const RunSpec& spec, const SlotFolder& folder) {
  if (spec.argv.empty() || spec.argv[0].find('/') == std::string::npos) return false;
  return IsBrought(fs::path(spec.cwd) / spec.argv[0], folder);
}

// What the set-up is yet to bring, or data that is not there.
bool IsMadeLater(const TaskDescription& task) {
  return protocol::NamesPath(task, protocol::kSetUpPath) ||
         protocol::NamesPath(task, protocol::kDataPath);
}

std::vector<Trouble> FindCommandTroubles(const Survey& survey, const SlotFolder& folder) {
  std::vector<Trouble> troubles;
  ProgramQuestions questions;
  std::set<std::pair<std::string, std::string>> told;  // what is missing is so for each task
  for (const TaskDescription& task : survey.tasks) {
    if (task.container || IsMadeLater(task)) continue;
    std::pair<std::string, std::string> what;
    try {
      const RunSpec spec = SpecOf(task, folder);
      const auto words = InnermostOf(spec.argv);
      what = {spec.cwd, words.empty() ? "" : words[0]};
      if (told.contains(what)) continue;
      if (!IsBrought(fs::path(spec.cwd), folder)) CheckStartFolder(spec, folder.path().string());
      CheckCommand(spec, [&](const RunSpec& one) { return IsBrought(one, folder); });
      questions.AskForPrograms(spec);
      questions.AskForScript(MakeSpecOfKnownWords(task, folder, SlotInfo(), Environment::OfHost()),
                             kScriptRemedy,
                             [&](const fs::path& script) { return IsBrought(script, folder); });
    } catch (const Error& error) {
      if (!told.insert(what).second) continue;
      troubles.push_back({error.cause(), error.remedy()});
    }
  }
  return troubles;
}

bool IsPython(const std::string& program) {
  return fs::path(program).filename().string().starts_with("python");
}

// The tasks' own Python, where one of them runs it.
protocol::PythonFact FindPython(const Survey& survey, const SlotFolder& folder,
                                TimePoint deadline) {
  for (const TaskDescription& task : survey.tasks) {
    if (task.container || IsMadeLater(task) || !HasSpec(task, folder)) continue;
    const RunSpec spec = SpecOf(task, folder);
    if (spec.argv.empty() || !IsPython(spec.argv[0]) || IsBrought(spec, folder)) continue;
    std::vector<std::string> settings;
    for (const std::string& entry : spec.env) {
      const std::string_view name = std::string_view(entry).substr(0, entry.find('='));
      if (std::find(kPythonSettings.begin(), kPythonSettings.end(), name) !=
          kPythonSettings.end()) {
        settings.push_back(entry);
      }
    }
    return AskPython(spec.argv[0], settings, survey.packages, deadline);
  }
  return AskPython("python3", {}, survey.packages, deadline);
}

std::optional<Trouble> TroubleOf(const std::optional<Error>& error) {
  if (!error) return std::nullopt;
  return Trouble{error->cause(), error->remedy()};
}

std::optional<Trouble> FindGpuTrouble(const Survey& survey, const HostGpus& found) {
  try {
    CheckGpus(survey.tasks, found);
    return std::nullopt;
  } catch (const Error& error) {
    return TroubleOf(error);
  }
}

protocol::ResolvedNames Resolve(const std::vector<std::string>& names, TimePoint deadline) {
  const size_t parts = std::min(kResolversAtATime, std::max<size_t>(names.size(), 1));
  std::vector<std::future<protocol::ResolvedNames>> answers;
  for (size_t part = 0; part < parts; ++part) {
    std::vector<std::string> some;
    for (size_t i = part; i < names.size(); i += parts) some.push_back(names[i]);
    answers.push_back(
        std::async(std::launch::async, [some, deadline] { return ResolveHosts(some, deadline); }));
  }
  protocol::ResolvedNames all;
  for (auto& answer : answers) {
    protocol::ResolvedNames some = answer.get();
    all.own = std::move(some.own);
    std::move(some.names.begin(), some.names.end(), std::back_inserter(all.names));
  }
  return all;
}

}  // namespace

HostFacts FindFacts(Survey survey, const fs::path& base, const NameLook& why_taken,
                    TimePoint deadline) {
  const bool set_up_made =
      !survey.set_up_key.empty() && FillMade(survey.tasks, survey.set_up_key, base);
  HostFacts facts;
  FillDataThatIsThere(survey.tasks, survey.data, facts.files);
  CheckRoomForFiles(protocol::kFileBytesOfASlot, Phase::kStart);
  // This check has threads too; the agent and each task with its holder need more.
  CheckRoomForThreads(kThreadsOfAnAgent + MostThreadsOf(survey.tasks), kCheckStackBytes,
                      Phase::kStart);
  const SlotFolder folder(base / "jobs" / "check" / "h0");
  auto gpus = std::async(std::launch::async, [deadline] { return FindGpus(deadline); });
  auto logout = std::async(std::launch::async, [deadline] { return FindLogoutTrouble(deadline); });
  auto memory = std::async(std::launch::async, [deadline] { return FindMemoryTrouble(deadline); });
  auto taken = std::async(std::launch::async, [&] { return why_taken(base, survey.name); });
  auto names = std::async(std::launch::async, [&] { return Resolve(survey.names, deadline); });
  std::future<protocol::PythonFact> python;
  if (!survey.packages.empty()) {
    python = std::async(std::launch::async, [&] { return FindPython(survey, folder, deadline); });
  }
  facts.set_up_made = set_up_made;
  facts.machine = MachineOfPorts();
  LookAtDisk(base, facts);
  facts.kept_bytes = KeptBytes(base / layout::kFiles);
  if (auto read_only = FindReadOnly(base)) facts.files.push_back(*std::move(read_only));
  facts.settings = FindForeignSettings();
  facts.ports = LookAtPorts(survey);
  std::ranges::move(FindCommandTroubles(survey, folder), std::back_inserter(facts.commands));
  ImagesFound of_images = LookAtImages(survey.tasks, deadline);
  std::ranges::move(of_images.troubles, std::back_inserter(facts.commands));
  facts.images = std::move(of_images.images);
  facts.data = CountData(survey.data, deadline);
  if (survey.kept) facts.kept = FindKept(base, *survey.kept, deadline);
  facts.names = names.get();
  facts.taken = TroubleOf(taken.get());
  facts.logout = logout.get();
  facts.memory = memory.get();
  facts.hidden = FindHiddenProcesses();
  for (auto& [why, remedy] : LowLimitsOfTasks())
    facts.limits.push_back({std::move(why), std::move(remedy)});
  if (python.valid()) facts.python = python.get();
  HostGpus found = gpus.get();
  facts.gpus_refused = FindGpuTrouble(survey, found);
  for (HostGpu& gpu : found.gpus) facts.gpus.push_back(std::move(gpu.name));
  facts.gpu_trouble = std::move(found.trouble);
  facts.networks = FindNetworks();
  return facts;
}

}  // namespace tfdist::agent
