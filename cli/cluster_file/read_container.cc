#include "cli/cluster_file/read_container.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace tfdist::cli {
namespace {

using protocol::EngineKind;
using protocol::Mount;

constexpr std::pair<std::string_view, EngineKind> kEngines[] = {
    {"auto", EngineKind::kAuto}, {"docker", EngineKind::kDocker}, {"podman", EngineKind::kPodman}};
constexpr std::string_view kMountForm = "a list of \"/path/on/the/host:/path/in/the/container\"";
// The engines' own, or what parts a mount's words.
constexpr std::string_view kNotInPaths = ",:\"";
constexpr std::string_view kDataWord = "{data:";
constexpr size_t kLongestImage = 512;

bool IsImage(const std::string& image) {
  const auto is_part = [](unsigned char c) { return c > ' ' && c < 0x7f && c != '{' && c != '}'; };
  return image.size() <= kLongestImage && !image.starts_with('-') &&
         std::ranges::all_of(image, is_part);
}

std::optional<Located<std::string>> ReadImage(const TableReader& table, Problems& problems) {
  auto image = table.Text("image");
  if (!image || IsImage(image->value)) return image;
  problems.Add(image->where, "is no name of an image",
               "write it as a registry has it: \"NAME:TAG\", \"HOST/NAME@sha256:...\"");
  return std::nullopt;
}

bool IsPath(std::string_view path) {
  return path.starts_with('/') && path.find_first_of(kNotInPaths) == path.npos;
}

// "/data/set", or "{data:set}/train" with what begins a path of data.
bool IsSource(std::string_view path) {
  if (path.starts_with(kDataWord)) path.remove_prefix(std::min(path.find('}') + 1, path.size()));
  return path.empty() || IsPath(path);
}

// "/data:/data", "/data:/data:ro", "{data:set}:/data".
std::optional<Mount> MountOf(std::string_view text) {
  Mount mount;
  const size_t first = text.find(':', text.starts_with(kDataWord) ? kDataWord.size() : 0);
  if (first == text.npos) return std::nullopt;
  const std::string_view rest = text.substr(first + 1);
  const size_t second = std::min(rest.find(':'), rest.size());
  const std::string_view mode = rest.substr(std::min(second + 1, rest.size()));
  mount.source = text.substr(0, first);
  mount.target = rest.substr(0, second);
  mount.read_only = mode == "ro";
  const bool mode_is_known = mode == "ro" || mode == "rw" || second == rest.size();
  const bool whole = mode_is_known && IsSource(mount.source) && IsPath(mount.target);
  return whole ? std::optional(std::move(mount)) : std::nullopt;
}

std::optional<std::vector<Mount>> ReadMounts(const Field& field, Problems& problems) {
  const auto elements = ReadArray(field, kMountForm, problems);
  if (!elements) return std::nullopt;
  std::vector<Mount> mounts;
  for (const Field& element : *elements) {
    const auto text = ReadLine(element, problems);
    if (!text) continue;
    if (auto mount = MountOf(*text)) {
      mounts.push_back(*std::move(mount));
    } else {
      problems.Add(
          element.where,
          "expected \"/path/on/the/host:/path/in/the/container\", or the same and \":ro\", "
          "which lets tasks read and not write",
          "both paths begin with / and hold no comma, colon or quote");
    }
  }
  return mounts;
}

}  // namespace

ContainerSettings ReadContainer(const TableReader& table, Problems& problems) {
  ContainerSettings settings;
  settings.image_said = !table.Lacks("image");
  settings.image = ReadImage(table, problems);
  if (const auto engine = table.Choice("engine", kEngines)) settings.engine = *engine;
  if (const auto field = table.Find("mounts")) {
    if (auto mounts = ReadMounts(*field, problems)) settings.mounts = {*mounts, field->where};
  }
  settings.shm_size_bytes = table.SizeBytes("shm_size");
  settings.entrypoint = table.Text("entrypoint");
  return settings;
}

}  // namespace tfdist::cli
