#include "cli/cluster_file/read_container.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <variant>

#include "cli/cluster_file/known_keys.h"

namespace tfdist::cli {
namespace {

using protocol::EngineKind;
using protocol::Mount;

constexpr std::pair<std::string_view, EngineKind> kEngines[] = {
    {"auto", EngineKind::kAuto},
    {"docker", EngineKind::kDocker},
    {"podman", EngineKind::kPodman},
    {"apptainer", EngineKind::kApptainer}};
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

std::optional<std::string> CheckedName(const std::optional<Located<std::string>>& name,
                                       Problems& problems) {
  if (!name) return std::nullopt;
  if (IsImage(name->value)) return name->value;
  problems.Add(name->where, "is no name of an image",
               "write it as a registry has it: \"NAME:TAG\", \"HOST/NAME@sha256:...\"");
  return std::nullopt;
}

// { archive = "train.tar" }, { archive = "all.tar", name = "train:3" }, { local = "train:3" }
std::optional<ImageSettings> ReadOwnImage(const TableReader& table, const Where& where,
                                          Problems& problems) {
  const auto archive = table.Line("archive");
  const auto local = table.Line("local");
  const auto name = table.Line("name");
  if (archive && !local) {
    const auto checked = CheckedName(name, problems);
    if (name && !checked) return std::nullopt;
    return ImageSettings{ImageSettings::From::kArchive, archive->value, checked.value_or("")};
  }
  if (local && !archive && !name) {
    if (!CheckedName(local, problems) || local->value.empty()) return std::nullopt;
    return ImageSettings{ImageSettings::From::kLocal, local->value, ""};
  }
  if ((archive && local) || (local && name) || (table.Lacks("archive") && table.Lacks("local"))) {
    problems.Add(where, "expected an archive of this machine, or a name",
                 "{ archive = \"train.tar\" }, { local = \"train:3\" }, or the name of an image "
                 "that the hosts pull");
  }
  return std::nullopt;
}

std::optional<Located<ImageSettings>> ReadImage(const TableReader& table, Problems& problems) {
  const auto field = table.Find("image");
  if (!field) return std::nullopt;
  if (const auto* own = std::get_if<TomlNode::Table>(&field->node->value)) {
    const TableReader reader(*own, field->where, kImageKeys, problems);
    auto image = ReadOwnImage(reader, field->where, problems);
    if (!image) return std::nullopt;
    return Located<ImageSettings>{*std::move(image), field->where};
  }
  const auto text = CheckedName(table.Text("image"), problems);
  if (!text) return std::nullopt;
  return Located<ImageSettings>{{ImageSettings::From::kRegistry, *text, ""}, field->where};
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
