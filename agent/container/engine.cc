#include "agent/container/engine.h"

#include <fmt/format.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"

namespace tfdist::agent {
namespace {

using protocol::EngineKind;

constexpr EngineKind kInOrder[] = {EngineKind::kDocker, EngineKind::kPodman,
                                   EngineKind::kApptainer};
constexpr size_t kMostFileBytes = 4096;
// As agent/census/census.h names it: what the client leaves behind is none of the job's.
constexpr const char* kWithoutCookie = "--unset=TFDIST_COOKIE";

std::vector<std::string> QuestionFor(EngineKind kind) {
  if (kind == EngineKind::kApptainer) return {"--version"};
  return kind == EngineKind::kDocker
             ? std::vector<std::string>{"info", "--format",
                                        "{{.ServerVersion}} {{.SecurityOptions}}\n{{.ID}} at "
                                        "{{.DockerRootDir}}"}
             : std::vector<std::string>{"info", "--format",
                                        "{{.Version.Version}} {{.Host.Security.Rootless}} "
                                        "{{.Host.OCIRuntime.Name}}\n{{.Store.GraphRoot}}"};
}

std::string RemedyFor(EngineKind kind, std::string_view words) {
  if (words.find("permission denied") != words.npos && kind == EngineKind::kDocker) {
    return "put the account into the group docker there, or write engine = \"podman\"";
  }
  return fmt::format("does `{} {}` work there?", ProgramOf(kind), QuestionFor(kind).front());
}

// As env says it of a client that PATH does not have.
bool IsNotInstalled(std::string_view words) {
  return words.find("No such file or directory") != words.npos;
}

struct EngineAnswer {
  std::optional<Engine> engine;
  std::string why_not;
};

// "20.10.24 [name=seccomp,profile=default name=rootless]", "4.3.1 true crun", and its identity on a second line.
EngineAnswer AskFor(EngineKind kind, TimePoint deadline) {
  const ProgramResult result = AskEngine(kind, QuestionFor(kind), deadline);
  std::string_view rest = result.output;
  std::string_view line = TakeUpTo('\n', rest);
  const std::string identity(TakeUpTo('\n', rest));
  if (kind == EngineKind::kApptainer)
    line.remove_prefix(line.rfind(' ') + 1);  // "apptainer version 1.3.4"
  const std::string version(TakeWord(line));
  if (result.exit_code != 0 || version.empty()) return {{}, WordsOf(result)};
  const std::string_view sign = kind == EngineKind::kDocker ? "name=rootless" : "true";
  return {
      Engine{kind, version, line.find(sign) != line.npos, line.find("crun") != line.npos, identity},
      {}};
}

}  // namespace

const char* ProgramOf(EngineKind kind) {
  if (kind == EngineKind::kApptainer) return "apptainer";
  return kind == EngineKind::kPodman ? "podman" : "docker";
}

bool KeepsContainers(EngineKind kind) { return kind != EngineKind::kApptainer; }

EngineKind KindOf(std::string_view program) {
  if (program == "apptainer") return EngineKind::kApptainer;
  return program == "podman" ? EngineKind::kPodman : EngineKind::kDocker;
}

ProgramResult AskEngine(EngineKind kind, const std::vector<std::string>& arguments,
                        TimePoint deadline) {
  return RunProgram({.argv = EngineCommand(kind, arguments)}, deadline);
}

std::vector<std::string> EngineCommand(EngineKind kind, const std::vector<std::string>& arguments) {
  std::vector<std::string> argv = {"env", kWithoutCookie, ProgramOf(kind)};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return argv;
}

std::string WordsOf(const ProgramResult& result) {
  if (result.timed_out) return "it does not answer";
  std::string_view rest = result.error_output;
  std::string last;
  while (!rest.empty()) {
    const std::string_view line = TakeUpTo('\n', rest);
    // docker's last line is a hint at its help.
    if (line.empty() || line.starts_with("Run '") || line.starts_with("See '")) continue;
    last = line;
  }
  for (const std::string_view prefix : {"docker: ", "Error: ", "Error response from daemon: "}) {
    if (last.starts_with(prefix)) last.erase(0, prefix.size());
  }
  return last.empty() ? fmt::format("exit code {}", result.exit_code) : last;
}

Engine FindEngine(EngineKind wanted, TimePoint deadline) {
  std::string why;
  std::string remedy;  // of the first that is installed
  for (const EngineKind kind : kInOrder) {
    if (wanted != EngineKind::kAuto && wanted != kind) continue;
    // Another one is to have time to answer, too.
    const TimePoint now = SystemClock().Now();
    const bool is_last = kind == wanted || kind == kInOrder[std::size(kInOrder) - 1];
    const EngineAnswer answer = AskFor(kind, is_last ? deadline : now + (deadline - now) / 2);
    if (answer.engine) return *answer.engine;
    why += fmt::format("{}{}: {}", why.empty() ? "" : "; ", ProgramOf(kind), answer.why_not);
    if (remedy.empty() && !IsNotInstalled(answer.why_not)) remedy = RemedyFor(kind, answer.why_not);
  }
  if (remedy.empty()) {
    remedy = fmt::format("install {} on that host",
                         wanted == EngineKind::kAuto ? "docker or podman" : ProgramOf(wanted));
  }
  throw Error(Phase::kCommand, fmt::format("no container engine answers ({})", why), remedy);
}

void CheckIsSame(const Engine& engine, TimePoint deadline) {
  if (engine.identity.empty()) return;
  const auto [now, why_not] = AskFor(engine.kind, deadline);
  if (!now) throw Error(Phase::kRun, why_not);
  if (now->identity == engine.identity) return;
  throw Error(Phase::kRun,
              fmt::format("they are in {}, and its client asks {} now ({}, a context)",
                          engine.identity, now->identity,
                          engine.kind == EngineKind::kDocker ? "DOCKER_HOST" : "CONTAINER_HOST"));
}

std::string RemedyForImage(EngineKind kind, std::string_view words) {
  if (words.find("no space left") != words.npos) {
    return fmt::format("make room there where {0} keeps its images: `{0} system df` lists them",
                       ProgramOf(kind));
  }
  if (words.find("subuid") != words.npos || words.find("subgid") != words.npos) {
    return "its files have several owners: give the account ranges of ids there, as root: `usermod "
           "--add-subuids 100000-165535 --add-subgids 100000-165535 USER`; then `podman system "
           "migrate`";
  }
  return {};
}

std::filesystem::path FolderOfImages(EngineKind kind, TimePoint deadline) {
  if (!KeepsContainers(kind)) return {};
  const bool is_docker = kind == EngineKind::kDocker;
  const ProgramResult result = AskEngine(
      kind, {"info", "--format", is_docker ? "{{.DockerRootDir}}" : "{{.Store.GraphRoot}}"},
      deadline);
  std::string_view said = result.output;
  std::filesystem::path folder = TakeUpTo('\n', said);
  if (result.exit_code != 0 || !folder.is_absolute()) return {};
  struct statvfs info {};
  while (statvfs(folder.c_str(), &info) != 0) {
    if (folder == folder.parent_path()) return {};
    folder = folder.parent_path();
  }
  return folder;
}

uint64_t FreeIn(const std::filesystem::path& folder) {
  struct statvfs info {};
  if (folder.empty() || statvfs(folder.c_str(), &info) != 0) return 0;
  return uint64_t{info.f_bavail} * info.f_frsize;
}

void RememberEngines(const std::filesystem::path& file, const std::vector<Engine>& engines) {
  std::string text;
  for (const Engine& engine : engines) {
    text += fmt::format(
        "{} {} {} {} {}\n", ProgramOf(engine.kind), engine.is_rootless ? "rootless" : "rootful",
        engine.keeps_groups ? "keeps-groups" : "drops-groups", engine.version, engine.identity);
  }
  ReplaceFile(file, text, 0600);
}

std::vector<Engine> RememberedEngines(const std::filesystem::path& file) {
  std::vector<Engine> engines;
  const std::string text = ReadOwnFileIfExists(file, kMostFileBytes).value_or("");
  for (std::string_view rest = text; !rest.empty();) {
    std::string_view line = TakeUpTo('\n', rest);
    Engine engine;
    const std::string program(TakeWord(line));
    engine.kind = KindOf(program);
    if (program != ProgramOf(engine.kind))
      throw Error(Phase::kFiles, file.string() + " is damaged");
    engine.is_rootless = TakeWord(line) == "rootless";
    engine.keeps_groups = TakeWord(line) == "keeps-groups";
    engine.version = TakeWord(line);
    line.remove_prefix(std::min<size_t>(line.size(), 1));
    engine.identity = line;
    engines.push_back(std::move(engine));
  }
  return engines;
}

const Engine& Choose(const std::vector<Engine>& engines, EngineKind wanted) {
  for (const Engine& engine : engines) {
    if (wanted == EngineKind::kAuto || engine.kind == wanted) return engine;
  }
  throw Error(Phase::kFiles, "the note of this slot's container engine is missing or damaged");
}

}  // namespace tfdist::agent
