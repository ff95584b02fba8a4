#include "cli/image/local_image.h"

#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "base/failures.h"
#include "base/subprocess.h"
#include "base/text.h"

namespace tfdist::cli {
namespace {

constexpr std::chrono::seconds kInspectLimit{20};
constexpr std::chrono::minutes kSaveLimit{60};
constexpr const char* kLocalEngines[] = {"docker", "podman"};

std::string WithoutShaPrefix(const std::string& id) {
  constexpr std::string_view kShaPrefix = "sha256:";
  return id.starts_with(kShaPrefix) ? id.substr(kShaPrefix.size()) : id;
}

// The last line that it has said.
std::string LastWordsOf(const ProgramResult& result) {
  if (result.timed_out) return "it does not answer";
  std::string_view rest = result.error_output;
  std::string last;
  while (!rest.empty()) {
    const std::string_view line = TakeUpTo('\n', rest);
    if (!line.empty()) last = line;
  }
  for (const std::string_view prefix : {"Error: ", "Error response from daemon: "}) {
    if (last.starts_with(prefix)) last.erase(0, prefix.size());
  }
  return last.empty() ? fmt::format("exit code {}", result.exit_code) : last;
}

LocalImage LocalImageIn(const std::string& engine, const nlohmann::json& inspected) {
  LocalImage image;
  image.engine = engine;
  image.id = WithoutShaPrefix(inspected.at("Id"));
  image.architecture = inspected.at("Architecture");
  image.size_bytes = inspected.at("Size");
  for (const nlohmann::json& layer : inspected.at("RootFS").at("Layers")) {
    image.layers.push_back(WithoutShaPrefix(layer.get<std::string>()));
  }
  return image;
}

// nullopt: it has none of that name, or does not answer; `why` says so.
std::optional<LocalImage> AskForImage(const std::string& engine, const std::string& name,
                                      std::string& why) try {
  const ProgramResult result =
      RunProgram({.argv = {engine, "image", "inspect", name}}, SystemClock().Now() + kInspectLimit);
  if (result.exit_code == 0)
    return LocalImageIn(engine, nlohmann::json::parse(result.output).at(0));
  why = LastWordsOf(result);
  return std::nullopt;
} catch (const nlohmann::json::exception& error) {
  why = fmt::format("what it says of it is not understood: {}", error.what());
  return std::nullopt;
} catch (const Error& error) {
  why = "it is not installed";
  return std::nullopt;
}

}  // namespace

LocalImage FindLocalImage(const std::string& name) {
  std::string all;
  for (const char* engine : kLocalEngines) {
    std::string why;
    if (const auto image = AskForImage(engine, name, why)) return *image;
    all += fmt::format("{}{}: {}", all.empty() ? "" : "; ", engine, why);
  }
  throw UsageError(Phase::kConfig, fmt::format("this machine has no image {} ({})", name, all),
                   "`docker image ls` lists its images; image = \"NAME\" is pulled by the hosts");
}

void SaveImage(const std::string& engine, const std::string& id, int fd) {
  const ProgramResult result =
      RunProgram({.argv = {engine, "save", id}, .stdout_fd = fd, .stdout_limit_bytes = UINT64_MAX},
                 SystemClock().Now() + kSaveLimit);
  if (result.exit_code == 0) return;
  throw Error(Phase::kFiles,
              fmt::format("{} cannot save image {}: {}", engine, id, LastWordsOf(result)),
              "is there room in TMPDIR, or /tmp, for all of the image?");
}

}  // namespace tfdist::cli
