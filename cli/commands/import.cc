// `tfdist import FILE -H HOST,...`: a job of another engine as a cluster file.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>

#include "base/failures.h"
#include "base/file.h"
#include "cli/cluster_file/host_words.h"
#include "cli/cluster_file/standard_input.h"
#include "cli/cluster_file/toml_text.h"
#include "cli/commands/commands.h"
#include "cli/exit_codes.h"
#include "cli/import/import_tfjob.h"
#include "cli/import/read_yaml.h"
#include "cli/show/report.h"
#include "cli/stream/print.h"

namespace tfdist::cli {
namespace {

constexpr size_t kLongestFile = size_t{1} << 20;

std::string ReadWhole(const std::string& file) {
  if (file == kStandardInput) return ReadStandardInput(kLongestFile);
  auto content = ReadFileIfExists(file, kLongestFile);
  if (!content)
    throw UsageError(Phase::kUsage, fmt::format("there is no file {}", file),
                     "name a file that has a TFJob");
  return *std::move(content);
}

// As a cluster file has it, where ":4" would be a port.
std::string HostText(const std::string& item) {
  const auto split = SplitHost(item, HostNumber::kSlots);
  if (const auto* bad = std::get_if<BadAddress>(&split)) {
    throw UsageError(Phase::kUsage, fmt::format("-H: {}", bad->why), bad->hint);
  }
  const auto& words = std::get<HostWords>(split);
  if (!words.slots) return TomlText(item);
  const std::string ssh =
      words.user.empty() ? "" : fmt::format(", ssh = {}", TomlText(words.user + "@" + words.host));
  return fmt::format("{{ address = {}{}, slots = {} }}", TomlText(words.host), ssh, *words.slots);
}

std::string HostsText(const std::vector<std::string>& lists) {
  std::vector<std::string> hosts;
  for (const std::string& list : lists) {
    for (const std::string& item : SplitHostList(list)) hosts.push_back(HostText(item));
  }
  return fmt::format("[{}]", fmt::join(hosts, ", "));
}

Imported Import(const ImportArguments& arguments) {
  const std::string hosts = HostsText(arguments.hosts);
  const std::string content = ReadWhole(arguments.file);
  try {
    return ImportTfJob(ReadYaml(content), hosts);
  } catch (const UsageError& error) {
    throw UsageError(Phase::kUsage, fmt::format("{}: {}", arguments.file, error.cause()),
                     error.remedy());
  }
}

}  // namespace

int ImportCommand(const ImportArguments& arguments) {
  const Imported imported = Import(arguments);
  PrintLines(imported.text);
  for (const std::string& note : imported.notes) PrintWarning(note, "");
  return kExitSuccess;
}

}  // namespace tfdist::cli
