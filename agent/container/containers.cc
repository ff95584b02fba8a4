#include "agent/container/containers.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string_view>

#include "agent/container/sif.h"
#include "base/error.h"
#include "base/text.h"

namespace tfdist::agent {
namespace {

using protocol::EngineKind;

constexpr const char* kJobLabel = "tfdist.job";
constexpr int kRemovalPauseMs = 100;
constexpr std::chrono::seconds kListingLimit{10};

// In docker's words, and in podman's. A daemon that is not there says of itself "no such file".
bool SaysThereIsNone(const ProgramResult& result) {
  constexpr std::array<std::string_view, 5> kWords = {"No such container", "no such container",
                                                      "no container with", "No such image",
                                                      "image not known"};
  return std::ranges::any_of(kWords, [&](std::string_view words) {
    return result.error_output.find(words) != std::string::npos;
  });
}

// podman would wait for the end of the first process, which may ignore SIGTERM.
std::vector<std::string> RemovalOf(EngineKind engine, const std::string& name) {
  std::vector<std::string> words = {"rm", "--force", "--volumes"};
  if (engine == EngineKind::kPodman) words.insert(words.end(), {"--time", "0"});
  words.push_back(name);
  return words;
}

struct FoundContainer {
  std::string name;
  std::string image;
  bool ran = false;
};

// "NAME IMAGE STATE" lines.
std::vector<FoundContainer> FoundIn(std::string_view listing) {
  std::vector<FoundContainer> found;
  while (!listing.empty()) {
    std::string_view line = TakeUpTo('\n', listing);
    FoundContainer one;
    one.name = TakeWord(line);
    one.image = TakeWord(line);
    one.ran = TakeWord(line) == "running";
    if (!one.name.empty()) found.push_back(std::move(one));
  }
  return found;
}

std::vector<FoundContainer> FindContainers(EngineKind engine,
                                           const std::vector<std::string>& filters,
                                           TimePoint deadline) {
  std::vector<std::string> words = {"ps", "--all", "--no-trunc", "--format",
                                    "{{.Names}} {{.Image}} {{.State}}"};
  for (const std::string& filter : filters) words.insert(words.end(), {"--filter", filter});
  const ProgramResult result = AskEngine(engine, words, deadline);
  if (result.exit_code == 0) return FoundIn(result.output);
  throw Error(Phase::kRun, WordsOf(result));
}

// An engine that works says so at once.
TimePoint ForAnAnswer(TimePoint deadline) {
  return std::min(deadline, SystemClock().Now() + kListingLimit);
}

std::vector<FoundContainer> ContainersOf(EngineKind engine, const std::string& job, int slot,
                                         TimePoint deadline) {
  std::vector<std::string> filters;
  for (const std::string& label : LabelsOf(job, slot)) filters.push_back("label=" + label);
  std::vector<FoundContainer> found = FindContainers(engine, filters, ForAnAnswer(deadline));
  const std::string prefix = ContainerName(job, slot, "");
  std::erase_if(found, [&](const auto& one) { return !one.name.starts_with(prefix); });
  return found;
}

bool IsThere(EngineKind engine, const std::string& name, TimePoint deadline) try {
  const auto found =
      FindContainers(engine, {fmt::format("label={}", kJobLabel), "name=" + name}, deadline);
  return std::ranges::find(found, name, &FoundContainer::name) != found.end();
} catch (const Error& error) {
  throw Error(Phase::kRun, fmt::format("{} does not say whether container {} is there: {}",
                                       ProgramOf(engine), name, error.cause()));
}

// Another process removes it now: the container's client, or an earlier `down`.
bool IsBeingRemoved(const ProgramResult& result) {
  return result.error_output.find("already in progress") != std::string::npos;
}

void RemoveNamed(EngineKind engine, const std::string& name, TimePoint deadline) {
  while (true) {
    const ProgramResult result = AskEngine(engine, RemovalOf(engine, name), deadline);
    if (result.exit_code == 0 || SaysThereIsNone(result)) return;
    if (!IsBeingRemoved(result) || SystemClock().Now() >= deadline) {
      throw Error(Phase::kRun, fmt::format("{} cannot remove container {}: {}", ProgramOf(engine),
                                           name, WordsOf(result)));
    }
    poll(nullptr, 0, kRemovalPauseMs);
  }
}

std::string DescribeContainer(const FoundContainer& container) {
  return fmt::format("container {} ({})", container.name, container.image);
}

void EndFound(EngineKind engine, const FoundContainer& container, TimePoint deadline,
              protocol::Census& census) {
  try {
    RemoveNamed(engine, container.name, deadline);
    if (container.ran) census.killed.push_back(DescribeContainer(container));
  } catch (const Error& error) {
    census.left.push_back(fmt::format("{}: {}", DescribeContainer(container), error.cause()));
  }
}

std::string WithoutHash(const std::string& id) {
  constexpr std::string_view kHash = "sha256:";
  return id.starts_with(kHash) ? id.substr(kHash.size()) : id;
}

ImageFacts FactsIn(const nlohmann::json& image) {
  ImageFacts facts;
  facts.id = WithoutHash(image.value("Id", ""));
  const auto files = image.value("RootFS", nlohmann::json::object());
  for (const auto& layer : files.value("Layers", nlohmann::json::array())) {
    facts.layers.push_back(WithoutHash(layer.get<std::string>()));
  }
  facts.architecture = image.value("Architecture", "");
  const auto config = image.value("Config", nlohmann::json::object());
  if (!config.is_object() || !config.contains("Entrypoint")) return facts;
  if (config["Entrypoint"].is_array()) facts.entrypoint = config["Entrypoint"];
  return facts;
}

}  // namespace

std::string ContainerName(const std::string& job, int slot, const std::string& task) {
  std::string name = fmt::format("tfdist-{}-h{}-{}", job, slot, task);
  ReplaceAll(name, ":", "-");
  return name;
}

std::vector<std::string> LabelsOf(const std::string& job, int slot) {
  return {fmt::format("{}={}", kJobLabel, job), fmt::format("tfdist.slot={}", slot)};
}

void RemoveContainer(EngineKind engine, const std::string& name, TimePoint deadline) {
  if (IsThere(engine, name, deadline)) RemoveNamed(engine, name, deadline);
}

std::optional<ContainerEnd> LookAtEnd(EngineKind engine, const std::string& name,
                                      TimePoint deadline) {
  const ProgramResult result = AskEngine(
      engine, {"container", "inspect", "--format", "{{.State.Status}} {{.State.OOMKilled}}", name},
      deadline);
  if (result.exit_code != 0) return std::nullopt;
  std::string_view line = result.output;
  ContainerEnd end;
  const std::string_view status = TakeWord(line);
  end.started = status != "created" && status != "initialized" && status != "configured";
  end.out_of_memory = TakeWord(line).starts_with("true");
  return end;
}

void EndContainers(const std::vector<Engine>& engines, const std::string& job, int slot,
                   TimePoint deadline, protocol::Census& census) {
  for (const Engine& engine : engines) {
    if (!KeepsContainers(engine.kind)) continue;
    try {
      CheckIsSame(engine, ForAnAnswer(deadline));
      for (const FoundContainer& container : ContainersOf(engine.kind, job, slot, deadline)) {
        EndFound(engine.kind, container, deadline, census);
      }
    } catch (const Error& error) {
      census.unknown.push_back(
          fmt::format("containers of this job, as {} does not tell of them: {}",
                      ProgramOf(engine.kind), error.cause()));
    }
  }
}

std::optional<std::string> WhyContainersMayBeLeft(const std::vector<Engine>& engines,
                                                  const std::string& job, int slot,
                                                  TimePoint deadline) {
  for (const Engine& engine : engines) {
    if (!KeepsContainers(engine.kind)) continue;
    try {
      CheckIsSame(engine, ForAnAnswer(deadline));
      const auto found = ContainersOf(engine.kind, job, slot, deadline);
      if (!found.empty()) return DescribeContainer(found.front()) + " of it is still there";
    } catch (const Error& error) {
      return fmt::format("{} does not tell whether containers of it are left: {}",
                         ProgramOf(engine.kind), error.cause());
    }
  }
  return std::nullopt;
}

std::optional<ImageFacts> LookAtImage(EngineKind engine, const std::string& image,
                                      TimePoint deadline) {
  if (engine == EngineKind::kApptainer) {
    const Sif sif = LookAtSif(image);
    return ImageFacts{sif.id, {}, sif.architecture, {}};
  }
  const ProgramResult result = AskEngine(engine, {"image", "inspect", image}, deadline);
  if (result.exit_code != 0 && SaysThereIsNone(result)) return std::nullopt;
  const auto json = nlohmann::json::parse(result.output, nullptr, /*allow_exceptions=*/false);
  if (result.exit_code == 0 && json.is_array() && json.size() == 1 && json[0].is_object()) {
    return FactsIn(json[0]);
  }
  throw Error(Phase::kCommand, fmt::format("{} does not tell of image {}: {}", ProgramOf(engine),
                                           image, WordsOf(result)));
}

}  // namespace tfdist::agent
