// The containers of a job on this host: found by their labels and names, and ended.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "agent/container/engine.h"
#include "base/clock.h"
#include "job/events.h"

namespace tfdist::agent {

// Of a task's container: the same for each of its runs.
std::string ContainerName(const std::string& job, int slot, const std::string& task);
// "tfdist.job=ID", "tfdist.slot=N": what each container of the slot has. So has what the user starts from an image that
// `docker commit` has made of one: only name and labels together make a container the job's.
std::vector<std::string> LabelsOf(const std::string& job, int slot);

// Ends it with SIGKILL and removes it; one that there is not is removed. Waits until `deadline` for somebody else's removal.
// Throws Error(kRun) where the engine does not do it.
void RemoveContainer(protocol::EngineKind engine, const std::string& name, TimePoint deadline);

// How a container has ended, as its engine tells.
struct ContainerEnd {
  bool started = false;
  bool out_of_memory = false;
};
// nullopt: the engine knows of no such container, or does not answer.
std::optional<ContainerEnd> LookAtEnd(protocol::EngineKind engine, const std::string& name,
                                      TimePoint deadline);

// Ends and removes all of the slot's containers. Into `census.killed` go those that ran; into `unknown` what an engine does
// not tell.
void EndContainers(const std::vector<Engine>& engines, const std::string& job, int slot,
                   TimePoint deadline, protocol::Census& census);

// Says that one of the slot's containers is there, or what an engine does not tell. nullopt: there is none.
std::optional<std::string> WhyContainersMayBeLeft(const std::vector<Engine>& engines,
                                                  const std::string& job, int slot,
                                                  TimePoint deadline);

struct ImageFacts {
  std::string id;  // of its configuration: 64 hexadecimal digits, alike for docker and podman
  std::vector<std::string> layers;  // SHA-256 of each, not compressed
  std::string architecture;         // "amd64"
  std::vector<std::string> entrypoint;
};
// nullopt: it is not on this host. Throws Error(kCommand) where the engine does not answer.
std::optional<ImageFacts> LookAtImage(protocol::EngineKind engine, const std::string& image,
                                      TimePoint deadline);

}  // namespace tfdist::agent
