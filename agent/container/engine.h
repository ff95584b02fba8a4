// A container engine of this host: which one, and how it is asked. It is asked through its own client, with this account's
// rights and logins.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/subprocess.h"
#include "job/container.h"

namespace tfdist::agent {

struct Engine {
  protocol::EngineKind kind = protocol::EngineKind::kDocker;
  std::string version;       // of its server, where it has one
  bool is_rootless = false;  // root in a container is this account on the host
  // Its runtime can leave the account's groups to a container that knows no number of them: crun.
  bool keeps_groups = false;
  // Where it keeps its containers, and docker's own id; empty: not known.
  std::string identity = {};

  bool operator==(const Engine&) const = default;
};

// "docker": its client, looked for in PATH.
const char* ProgramOf(protocol::EngineKind kind);
// Whether it knows of containers by itself, running or ended: apptainer has nothing but their processes.
bool KeepsContainers(protocol::EngineKind kind);
// Of what ProgramOf says.
protocol::EngineKind KindOf(std::string_view program);

// kAuto: the first that answers, docker before podman before apptainer; each has half of the time that is left. Throws Error(kCommand) with each one's own words.
Engine FindEngine(protocol::EngineKind wanted, TimePoint deadline);

// The words of a call of its client, which is not part of the job: it may leave a process for later calls (podman's pause process).
std::vector<std::string> EngineCommand(protocol::EngineKind kind,
                                       const std::vector<std::string>& arguments);
// Makes that call.
ProgramResult AskEngine(protocol::EngineKind kind, const std::vector<std::string>& arguments,
                        TimePoint deadline);
// Throws Error(kRun) where the client asks another engine now, which knows nothing of this one's containers, or where it does
// not answer.
void CheckIsSame(const Engine& engine, TimePoint deadline);
// What helps where it cannot take an image in, by its `words`; empty: not known.
std::string RemedyForImage(protocol::EngineKind kind, std::string_view words);
// Where it keeps its images, or the nearest folder above that this account may look at; empty: not known.
std::filesystem::path FolderOfImages(protocol::EngineKind kind, TimePoint deadline);
// Room there; 0: not known.
uint64_t FreeIn(const std::filesystem::path& folder);
// The last line that it has said: what went wrong, without the engine's own prefix.
std::string WordsOf(const ProgramResult& result);

// The engines of a slot's tasks, kept in `file` for all who end containers later. Without a file: none. Both throw
// Error(kFiles); so does a damaged file.
void RememberEngines(const std::filesystem::path& file, const std::vector<Engine>& engines);
std::vector<Engine> RememberedEngines(const std::filesystem::path& file);
// Throws Error(kFiles) where none of them is it; kAuto: the first.
const Engine& Choose(const std::vector<Engine>& engines, protocol::EngineKind wanted);

}  // namespace tfdist::agent
