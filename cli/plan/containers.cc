#include "cli/plan/containers.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <variant>

#include "cli/plan/local_path.h"
#include "cli/plan/placeholders.h"
#include "cli/plan/settings.h"

namespace tfdist::cli {
namespace {

constexpr std::string_view kSif = ".sif";  // files that only apptainer runs

template <typename T>
std::optional<Located<T>> Said(const ClusterFile& file, const Role& role,
                               std::optional<Located<T>> ContainerSettings::*member) {
  for (const TaskSettings* settings : SettingsOf(file, role)) {
    if (settings->container.*member) return settings->container.*member;
  }
  return std::nullopt;
}

std::optional<Located<ImageSettings>> ImageOf(const ClusterFile& file, const Role& role) {
  auto image = Said(file, role, &ContainerSettings::image);
  if (image && image->value.text.empty()) image.reset();  // this role runs on the hosts themselves
  return image;
}

// Its place in plan.images; nullopt: the hosts have it, or a mistake was found.
std::optional<size_t> AddOwnImage(const Located<ImageSettings>& said,
                                  const std::filesystem::path& folder, Plan& plan,
                                  Problems& problems) {
  using From = ImageSettings::From;
  ImagePlan image;
  if (said.value.from == From::kRegistry) return std::nullopt;
  image.name = said.value.from == From::kArchive ? said.value.name : said.value.text;
  if (said.value.from == From::kArchive) {
    const auto archive = FindFile({said.value.text, said.where}, folder, problems);
    if (!archive) return std::nullopt;
    image.archive = *archive;
  }
  const auto is_same = [&](const ImagePlan& other) {
    return other.archive == image.archive && other.name == image.name;
  };
  const auto same = std::ranges::find_if(plan.images, is_same);
  const auto at = static_cast<size_t>(same - plan.images.begin());
  if (same == plan.images.end()) plan.images.push_back(std::move(image));
  return at;
}

// "{data:set}/train" as the host fills it in. Nothing writes into data.
void NameData(std::vector<protocol::Mount>& mounts, const Where& where,
              Placeholders& placeholders) {
  for (protocol::Mount& mount : mounts) {
    if (!mount.source.starts_with('{')) continue;
    const auto source = placeholders.Expand({mount.source, where}, TaskOnHost());
    mount.source = std::get<std::string>(source.parts.front());
    mount.read_only = true;
  }
}

protocol::ContainerDescription ContainerOf(const ClusterFile& file, const Role& role,
                                           const std::string& shared, Placeholders& placeholders) {
  protocol::ContainerDescription container;
  container.image = ImageOf(file, role)->value.text;
  if (container.image.ends_with(kSif)) container.engine = protocol::EngineKind::kApptainer;
  if (const auto engine = Said(file, role, &ContainerSettings::engine)) {
    container.engine = engine->value;
  }
  if (const auto mounts = Said(file, role, &ContainerSettings::mounts)) {
    container.mounts = mounts->value;
    NameData(container.mounts, mounts->where, placeholders);
  }
  if (!shared.empty()) container.mounts.push_back({shared, shared, false});
  if (const auto size = Said(file, role, &ContainerSettings::shm_size_bytes)) {
    container.shm_size_bytes = size->value;
  }
  if (const auto entrypoint = Said(file, role, &ContainerSettings::entrypoint)) {
    container.entrypoint = entrypoint->value;
  }
  return container;
}

void CheckRole(const ClusterFile& file, const Role& role, Problems& problems) {
  for (const TaskSettings* settings : SettingsOf(file, role)) {
    for (const auto& python : {settings->venv, settings->conda}) {
      if (!python) continue;
      problems.Add(python->where, "is of the hosts, and the task has an image",
                   "the image has its own Python: leave one of them out");
    }
  }
}

void CheckNeedsImage(const TaskSettings& settings, Problems& problems) {
  const ContainerSettings& said = settings.container;
  const auto check = [&](const auto& key) {
    if (key) problems.Add(key->where, "says something of a container, and no task has an image");
  };
  check(said.engine);
  check(said.mounts);
  check(said.shm_size_bytes);
  check(said.entrypoint);
}

// Where an image is meant, and is a mistake, the rest is none.
void CheckImageIsSaid(const ClusterFile& file, Problems& problems) {
  const auto says = [](const TaskSettings& settings) { return settings.container.image_said; };
  const bool said = says(file.task) || std::ranges::any_of(file.roles, says, &RoleTable::settings);
  if (said) return;
  CheckNeedsImage(file.task, problems);
  for (const RoleTable& role : file.roles) CheckNeedsImage(role.settings, problems);
}

}  // namespace

void SetContainers(const ClusterFile& file, const std::filesystem::path& folder,
                   const Placement& placement, Plan& plan, Problems& problems) {
  CheckImageIsSaid(file, problems);
  Placeholders placeholders(plan, placement.complete, problems);
  for (const Role& role : placement.roles) {
    const auto image = ImageOf(file, role);
    if (!image) continue;
    CheckRole(file, role, problems);
    const auto own = AddOwnImage(*image, folder, plan, problems);
    const auto container = ContainerOf(file, role, plan.shared, placeholders);
    for (TaskOnHost& task : plan.tasks) {
      if (task.id.type != role.type) continue;
      task.container = container;
      task.own_image = own;
    }
  }
}

std::string FolderOfImage(const TaskOnHost& task) {
  if (!task.container || task.cwd.parts.empty()) return "";
  const auto* literal = std::get_if<std::string>(&task.cwd.parts[0]);
  if (literal == nullptr || !literal->starts_with('/')) return "";
  const auto below = [&](const protocol::Mount& mount) {
    return (*literal + '/').starts_with(mount.target + '/');
  };
  return std::ranges::any_of(task.container->mounts, below) ? "" : *literal;
}

void WarnOfFoldersOfImages(Plan& plan) {
  std::set<std::string> warned;
  for (const TaskOnHost& task : plan.tasks) {
    const std::string folder = FolderOfImage(task);
    if (folder.empty() || !warned.insert(folder).second) continue;
    plan.warnings.push_back(fmt::format(
        "{} starts in {} of its image: what it writes there goes with its container. Without cwd "
        "it starts in the work folder, which `tfdist pull` brings; mounts = [\"/FOLDER:{}\"] keeps "
        "it on the host",
        ToString(task.id), folder, folder));
  }
}

std::string SourceText(const ImagePlan& image) {
  const std::string file = image.archive.filename().string();
  if (image.archive.empty())
    return fmt::format("{} of this machine's {}", image.name, image.engine);
  return image.name.empty() ? file : fmt::format("{} of {}", image.name, file);
}

std::string ImageText(const Plan& plan, const TaskOnHost& task) {
  const auto& container = *task.container;
  const auto engine = protocol::Json(container.engine).get<std::string>();
  if (!task.own_image) return fmt::format("{} ({})", container.image, engine);
  const ImagePlan& image = plan.images[*task.own_image];
  return fmt::format("{} ({}), sent from here as {}, sha256:{}", SourceText(image), engine,
                     container.image, image.key);
}

}  // namespace tfdist::cli
