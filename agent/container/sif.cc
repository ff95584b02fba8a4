#include "agent/container/sif.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "base/unique_fd.h"

namespace tfdist::agent {
namespace {

// SIF's global header: a line for the kernel, the magic, a version, the architecture. Source: sif/docs/format.
constexpr size_t kMagicPlace = 32;
constexpr std::string_view kMagic = "SIF_MAGIC";
constexpr size_t kArchitecturePlace = 45;
constexpr size_t kHeaderBytes = size_t{64} * 1024;  // and the table of what is in the file
constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kArchitectures = {
    {{"01", "386"}, {"02", "amd64"}, {"04", "arm64"}}};

[[noreturn]] void FailSif(const std::string& why, const std::string& image) {
  throw Error(
      Phase::kCommand, why,
      fmt::format("apptainer runs SIF files of its host: image = \"/path/train.sif\", which "
                  "`apptainer pull /path/train.sif docker://{}` makes",
                  image.starts_with('/') ? "NAME" : image));
}

}  // namespace

Sif LookAtSif(const std::string& image) {
  if (!image.starts_with('/')) FailSif(fmt::format("image {} is no SIF file", image), image);
  const UniqueFd file(open(image.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info {};
  std::string header(kHeaderBytes, '\0');
  const ssize_t got = file.valid() ? pread(file.get(), header.data(), header.size(), 0) : -1;
  if (got < 0 || fstat(file.get(), &info) != 0) FailSif(WithErrno("image " + image, errno), image);
  header.resize(static_cast<size_t>(got));
  if (header.size() < kArchitecturePlace + 2 ||
      header.compare(kMagicPlace, kMagic.size(), kMagic) != 0) {
    FailSif(fmt::format("image {} is no SIF file", image), image);
  }
  Sif sif;
  sif.id = Sha256Hex(fmt::format("{} {}", info.st_size, header));
  const std::string_view code = std::string_view(header).substr(kArchitecturePlace, 2);
  const auto* const known = std::ranges::find(
      kArchitectures, code, &std::pair<std::string_view, std::string_view>::first);
  sif.architecture = known == kArchitectures.end() ? "another machine" : known->second;
  return sif;
}

}  // namespace tfdist::agent
