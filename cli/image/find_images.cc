#include "cli/image/find_images.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string_view>

#include "base/file.h"
#include "cli/image/image_archive.h"
#include "cli/image/local_image.h"
#include "wire/data.h"

namespace tfdist::cli {
namespace {

constexpr size_t kIdDigits = 12;
constexpr size_t kLongestImageName = 40;

// "registry.lan:5000/team/Train_3:latest" -> "train-3"
std::string PlainName(std::string_view name) {
  name.remove_prefix(name.rfind('/') == name.npos ? 0 : name.rfind('/') + 1);
  name = name.substr(0, name.find_first_of(":@"));
  std::string plain;
  for (const unsigned char c : name.substr(0, kLongestImageName)) {
    const bool is_plain = c < 0x80 && std::isalnum(c) != 0;
    if (is_plain) plain += static_cast<char>(std::tolower(c));
    if (!is_plain && !plain.empty() && plain.back() != '-') plain += '-';
  }
  if (plain.ends_with('-')) plain.pop_back();
  return plain.empty() ? "image" : plain;
}

void LookAtArchive(ImagePlan& plan) {
  const UniqueFd fd = OpenFile(plan.archive, O_RDONLY);
  const ArchivedImage image = ReadImageArchive(fd.get(), plan.archive.string(), plan.name);
  plan.name = image.name;
  plan.key = image.config.sha256;
  plan.architecture = image.architecture;
  plan.layers = image.layer_ids;
  for (const ImageBlob& layer : image.layers) plan.size_bytes += layer.size_bytes;
}

void LookAtEngine(ImagePlan& plan) {
  const LocalImage image = FindLocalImage(plan.name);
  plan.engine = image.engine;
  plan.key = image.id;
  plan.architecture = image.architecture;
  plan.layers = image.layers;
  plan.size_bytes = image.size_bytes;
}

}  // namespace

std::string ReferenceFor(const std::string& name, const std::string& key) {
  return fmt::format("{}{}:{}", protocol::kSentImages, PlainName(name), key.substr(0, kIdDigits));
}

void FindImages(Plan& plan) {
  for (ImagePlan& image : plan.images) {
    image.archive.empty() ? LookAtEngine(image) : LookAtArchive(image);
    const std::string& name = image.name.empty() ? image.archive.stem().string() : image.name;
    image.reference = ReferenceFor(name, image.key);
  }
  for (TaskOnHost& task : plan.tasks) {
    if (task.own_image) task.container->image = plan.images[*task.own_image].reference;
  }
}

}  // namespace tfdist::cli
