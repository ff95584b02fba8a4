#include "cli/deploy/set_up.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/failures.h"
#include "base/hash.h"

namespace tfdist::cli {
namespace {

constexpr size_t kKeyDigits = 16;

bool IsBelow(std::string_view path, std::string_view folder) {
  return path.size() > folder.size() && path.starts_with(folder) && path[folder.size()] == '/';
}

[[noreturn]] void FailForInput(const std::string& input, const std::string& why,
                               const std::string& remedy) {
  throw UsageError(Phase::kConfig, fmt::format("[setup] inputs: {} {}", input, why), remedy);
}

[[noreturn]] void FailMissing(const std::string& input, const WorkdirListing& listing) {
  constexpr std::array<const char*, kLeftOutReasons> kReasons = {
      "a line of .gitignore",
      "a line of .tfdistignore",
      "its name: version control",
      "its name: results of tfdist pull",
      "[data], which sends it by itself",
      "its use: tfdist writes its output there"};
  for (const LeftOut& one : listing.left_out) {
    if (one.path != input && !IsBelow(input, one.path)) continue;
    FailForInput(input, fmt::format("stays here by {}", kReasons.at(static_cast<size_t>(one.by))),
                 one.by == LeftOutBy::kData
                     ? "keep it outside of what [data] names"
                     : fmt::format("a line !/{} in .tfdistignore sends it", one.path));
  }
  FailForInput(input, "is not in the workdir", "write the path of a file there");
}

// The files of the work folder that `input` means: itself, or all below it.
std::vector<const WorkdirEntry*> FilesOf(std::string input, const WorkdirListing& listing) {
  while (input.ends_with('/')) input.pop_back();
  std::vector<const WorkdirEntry*> files;
  bool is_there = false;
  for (const WorkdirEntry& entry : listing.entries) {
    if (entry.path != input && input != "." && !IsBelow(entry.path, input)) continue;
    is_there = true;
    if (entry.is_folder()) continue;
    if (entry.is_link()) FailForInput(entry.path, "is a link", "name the file that it leads to");
    files.push_back(&entry);
  }
  if (!is_there) FailMissing(input, listing);
  return files;
}

}  // namespace

std::optional<protocol::SetUpDescription> DescribeSetUp(const Plan& plan,
                                                        const WorkdirListing& listing,
                                                        FileHashes& hashes) {
  if (!plan.set_up) return std::nullopt;
  protocol::SetUpDescription set_up;
  set_up.argv = plan.set_up->argv;
  set_up.env = plan.set_up->env;
  set_up.timeout_ms = plan.set_up->timeout_ms;
  protocol::Json content = {{"argv", set_up.argv}, {"inputs", protocol::Json::array()}};
  for (const std::string& input : plan.set_up->inputs) {
    for (const WorkdirEntry* file : FilesOf(input, listing)) {
      set_up.inputs.push_back(file->path);
      content["inputs"].push_back(
          {protocol::Bytes{file->path}, file->info.st_mode & 0777, hashes.Of(*file)});
    }
  }
  set_up.key = Sha256Hex(protocol::JsonLine(content)).substr(0, kKeyDigits);
  return set_up;
}

std::string SetUpKey(const Plan& plan) {
  if (!plan.set_up) return "";
  const WorkdirListing listing = ListWorkdir(plan);
  FileHashes hashes(plan.workdir.value_or(""));
  return DescribeSetUp(plan, listing, hashes)->key;
}

}  // namespace tfdist::cli
