#include "agent/tasks/container_preflight.h"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "agent/container/apptainer.h"
#include "agent/container/container_run.h"
#include "agent/container/containers.h"
#include "agent/container/engine.h"
#include "agent/container/gpu_support.h"
#include "agent/tasks/container_spec.h"
#include "agent/tasks/container_trial_main.h"
#include "agent/tasks/gpu_share.h"
#include "agent/tasks/task_spec.h"
#include "base/error.h"
#include "base/inner_command.h"
#include "base/log.h"
#include "base/text.h"
#include "wire/data.h"

namespace tfdist::agent {
namespace {

using protocol::ContainerDescription;
using protocol::ImageOnHost;
using protocol::TaskDescription;

constexpr std::chrono::seconds kEngineLimit{20};
constexpr std::chrono::seconds kImageLimit{20};
constexpr std::chrono::seconds kTrialLimit{60};
// Of all together. The command waits longer (kTrialsLimit of cli/deploy/deployment.cc).
constexpr std::chrono::seconds kWholeLimit{240};

TimePoint Within(std::chrono::seconds limit, TimePoint deadline) {
  return std::min(SystemClock().Now() + limit, deadline);
}

[[noreturn]] void FailContainer(std::string cause, std::string remedy) {
  throw Error(Phase::kCommand, std::move(cause), std::move(remedy));
}

std::string NameAndVersion(const Engine& engine) {
  return fmt::format("{} {}", ProgramOf(engine.kind), engine.version);
}

// As images name it: "amd64".
std::string OwnArchitecture() {
  utsname names{};
  if (uname(&names) != 0) return {};
  const std::string_view machine = names.machine;
  return machine == "x86_64" ? "amd64" : machine == "aarch64" ? "arm64" : std::string(machine);
}

void CheckMounts(const TaskDescription& task) {
  for (const protocol::Mount& mount : task.container->mounts) {
    if (access(mount.source.c_str(), F_OK) == 0) continue;
    FailContainer(WithErrno(fmt::format("{} mounts {}", task.task, mount.source), errno),
                  "a path of mounts must be there on each host, for this account");
  }
}

void CheckArchitecture(const TaskDescription& task, const ImageFacts& image) {
  const std::string own = OwnArchitecture();
  if (image.architecture == own) return;
  FailContainer(fmt::format("image {} of {} is for {}, and this host is {}", task.container->image,
                            task.task, image.architecture, own),
                "build or pull the image for that host's architecture");
}

ImageFacts CheckImage(const TaskDescription& task, const Engine& engine, TimePoint deadline) {
  const std::string& image = task.container->image;
  const auto facts = LookAtImage(engine.kind, image, Within(kImageLimit, deadline));
  if (!facts) {
    FailContainer(
        fmt::format("{} does not have image {} of {}", NameAndVersion(engine), image, task.task),
        fmt::format("{} pull {}, on that host", ProgramOf(engine.kind), image));
  }
  CheckArchitecture(task, *facts);
  return *facts;
}

// The engines of some tasks, each looked for once.
class EnginesOfTasks {
 public:
  explicit EnginesOfTasks(TimePoint deadline) : deadline_(deadline) {}

  const Engine& For(protocol::EngineKind wanted) {
    const auto known =
        std::ranges::find(found_, wanted, &std::pair<protocol::EngineKind, size_t>::first);
    if (known != found_.end()) return engines_[known->second];
    const Engine engine = FindEngine(wanted, Within(kEngineLimit, deadline_));
    const auto same = std::ranges::find(engines_, engine);
    const auto at = static_cast<size_t>(same - engines_.begin());
    if (same == engines_.end()) engines_.push_back(engine);
    found_.emplace_back(wanted, at);
    return engines_[at];
  }

  // As Choose counts on it: docker first, apptainer last.
  [[nodiscard]] std::vector<Engine> Found() const {
    std::vector<Engine> engines;
    for (const auto kind : {protocol::EngineKind::kDocker, protocol::EngineKind::kPodman,
                            protocol::EngineKind::kApptainer}) {
      const auto found = std::ranges::find(engines_, kind, &Engine::kind);
      if (found != engines_.end()) engines.push_back(*found);
    }
    return engines;
  }

 private:
  TimePoint deadline_;
  std::vector<Engine> engines_;
  std::vector<std::pair<protocol::EngineKind, size_t>> found_;  // what was wanted, and its place
};

// The entry point, where there is one, and what it is given.
std::vector<std::string> CommandIn(const ContainerRun& run, const ImageFacts& image) {
  std::vector<std::string> words = image.entrypoint;
  if (const auto& own = run.container.entrypoint) {
    words = own->empty() ? std::vector<std::string>() : std::vector{*own};
  }
  words.insert(words.end(), run.words.begin(), run.words.end());
  return words;
}

// `sh -c 'exec python3 train.py'` -> sh, python3.
std::vector<std::string> ProgramsOf(std::vector<std::string> words) {
  std::vector<std::string> programs = {words.front()};
  while (auto inner = InnerOf(words)) {
    words = std::move(inner->words);
    programs.push_back(words.front());
  }
  return programs;
}

void RemoveTrial(const Engine& engine, const std::string& name) {
  try {
    RemoveContainer(engine.kind, name, SystemClock().Now() + kEngineLimit);
  } catch (const Error& error) {
    Log("{}, ignoring", error.cause());  // the census ends it
  }
}

// As the job sets it; empty: the image's counts.
std::string PathOf(const ContainerRun& run) {
  constexpr std::string_view kPath = "PATH=";
  const auto entry =
      std::ranges::find_if(run.env, [&](const std::string& one) { return one.starts_with(kPath); });
  return entry == run.env.end() ? "" : entry->substr(kPath.size());
}

std::vector<std::string> TrialOf(ContainerRun run, const Engine& engine,
                                 const std::vector<std::string>& command,
                                 const SlotFolder& folder) {
  run.words = {kContainerTrialRole, PathOf(run)};
  run.words.insert(run.words.end(), command.begin(), command.end());
  return KeepsContainers(engine.kind) ? TrialFor(run, engine, folder.executable())
                                      : ApptainerTrial(run, folder.executable());
}

// Trials alike in all but the names of their tasks, and what their programs are given, are one.
std::vector<std::string> KindOfTrial(ContainerRun run, const Engine& engine,
                                     const std::vector<std::string>& command,
                                     const SlotFolder& folder) {
  run.name.clear();
  run.task.clear();
  return TrialOf(std::move(run), engine, ProgramsOf(command), folder);
}

void TryContainer(const ContainerRun& run, const Engine& engine,
                  const std::vector<std::string>& command, const SlotFolder& folder,
                  TimePoint deadline) {
  const std::vector<std::string> argv = TrialOf(run, engine, command, folder);
  const std::vector<std::string> arguments(argv.begin() + 1, argv.end());
  const ProgramResult result = AskEngine(engine.kind, arguments, Within(kTrialLimit, deadline));
  if (result.exit_code == 0) return;
  if (KeepsContainers(engine.kind)) RemoveTrial(engine, run.name);
  if (result.exit_code == kNoSuchCommand && !result.output.empty()) {
    std::string_view why = result.output;
    const std::string program(TakeUpTo('\n', why));
    FailContainer(
        fmt::format("command '{}' of {}: {}, in image {}", program, run.task, why,
                    run.container.image),
        "is it in the image, and its path right? entrypoint = \"\" leaves the image's own out");
  }
  FailContainer(
      fmt::format("{} cannot start a container of image {} for {}: {}", NameAndVersion(engine),
                  run.container.image, run.task, WordsOf(result)),
      fmt::format("does `{} {} {} true` work there?", ProgramOf(engine.kind),
                  KeepsContainers(engine.kind) ? "run --rm" : "exec", run.container.image));
}

void CheckNotAmds(const RunSpec& spec) {
  const bool sees_none =
      std::ranges::find(spec.env, std::string("CUDA_VISIBLE_DEVICES=")) != spec.env.end();
  if (sees_none || !HasOnlyAmdsTools()) return;
  FailContainer(
      fmt::format("{} has an image, and this host has AMD's GPUs: no container gets those yet",
                  spec.task),
      "gpus = 0, or run it without an image");
}

// False also where the host lacks what the task is to have: it is told by itself.
bool IsToHaveGpus(const TaskDescription& task) {
  try {
    const SlotFolder folder("/");
    return GetsGpus(MakePreflightSpec(task, folder, SlotInfo(), Environment::OfHost()).env);
  } catch (const Error&) {
    return false;
  }
}

void AddGpuTrouble(const TaskDescription& task, const Engine& engine, protocol::ImageFact& image) {
  const auto trouble = IsToHaveGpus(task) ? GpuSupportTrouble(engine.kind) : std::nullopt;
  if (!trouble) return;
  image.gpu_trouble = trouble->why;
  image.gpu_remedy = trouble->remedy;
}

// Adds it once for each engine. What `up` would send may be there under another name: its reference ends with its id.
void LookAtImageOf(const TaskDescription& task, const Engine& engine, TimePoint deadline,
                   std::vector<protocol::ImageFact>& images) {
  const std::string& name = task.container->image;
  auto known = std::ranges::find_if(images, [&](const protocol::ImageFact& image) {
    return image.image == name && image.engine == NameAndVersion(engine);
  });
  if (known == images.end()) {
    auto facts = LookAtImage(engine.kind, name, Within(kImageLimit, deadline));
    if (!facts && name.starts_with(protocol::kSentImages)) {
      facts =
          LookAtImage(engine.kind, name.substr(name.find(':') + 1), Within(kImageLimit, deadline));
    }
    known = images.insert(images.end(), {name, NameAndVersion(engine), facts.has_value(),
                                         FreeIn(FolderOfImages(engine.kind, deadline)), "", ""});
    if (facts) CheckArchitecture(task, *facts);
  }
  AddGpuTrouble(task, engine, *known);
}

}  // namespace

std::vector<ImageOnHost> PrepareContainers(const std::vector<TaskDescription>& tasks,
                                           const SlotFolder& folder, const SlotInfo& info) {
  const TimePoint deadline = SystemClock().Now() + kWholeLimit;
  EnginesOfTasks engines(deadline);
  for (const TaskDescription& task : tasks) {
    if (task.container) (void)engines.For(task.container->engine);
  }
  if (engines.Found().empty()) return {};
  RememberEngines(folder.engines(), engines.Found());
  std::vector<ImageOnHost> images;
  std::vector<std::vector<std::string>> tried;
  for (const TaskDescription& task : tasks) {
    if (!task.container) continue;
    CheckMounts(task);
    const Engine& engine = engines.For(task.container->engine);
    const ImageFacts image = CheckImage(task, engine, deadline);
    images.push_back({task.container->image, image.id, NameAndVersion(engine)});
    const RunSpec spec = MakePreflightSpec(task, folder, info, Environment::OfHost());
    CheckNotAmds(spec);
    const ContainerRun run = ContainerRunOf(spec, task, folder, info);
    if (KeepsContainers(engine.kind)) (void)EnvOfContainer(run);
    const std::vector<std::string> command = CommandIn(run, image);
    auto kind = KindOfTrial(run, engine, command, folder);
    if (std::ranges::find(tried, kind) != tried.end()) continue;
    TryContainer(run, engine, command, folder, deadline);
    tried.push_back(std::move(kind));
  }
  return images;
}

ImagesFound LookAtImages(const std::vector<TaskDescription>& tasks, TimePoint deadline) {
  ImagesFound found;
  EnginesOfTasks engines(deadline);
  for (const TaskDescription& task : tasks) {
    if (!task.container) continue;
    try {
      CheckMounts(task);
      LookAtImageOf(task, engines.For(task.container->engine), deadline, found.images);
    } catch (const Error& error) {
      const auto same = [&](const auto& trouble) { return trouble.why == error.cause(); };
      if (std::ranges::none_of(found.troubles, same)) {
        found.troubles.push_back({error.cause(), error.remedy()});
      }
    }
  }
  return found;
}

}  // namespace tfdist::agent
