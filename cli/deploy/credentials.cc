#include "cli/deploy/credentials.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"

namespace tfdist::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostKeyBytes = 32 * 1024;
constexpr size_t kMostSettingsBytes = 64 * 1024;

constexpr std::array<std::string_view, 20> kPlaces = {".ssh",
                                                      ".gnupg",
                                                      ".aws",
                                                      ".azure",
                                                      ".kube",
                                                      ".password-store",
                                                      ".netrc",
                                                      ".pgpass",
                                                      ".my.cnf",
                                                      ".pypirc",
                                                      ".npmrc",
                                                      ".git-credentials",
                                                      ".config/git/credentials",
                                                      ".config/gcloud",
                                                      ".config/gh",
                                                      ".config/rclone",
                                                      ".docker/config.json",
                                                      ".kaggle/kaggle.json",
                                                      ".cache/huggingface/token",
                                                      ".cache/huggingface/stored_tokens"};

bool IsCalledLikeAKey(std::string_view name) {
  constexpr std::array<std::string_view, 4> kEndings = {".pem", ".key", ".ppk", ".p8"};
  return name.starts_with("id_") ||
         std::ranges::any_of(kEndings, [&](std::string_view end) { return name.ends_with(end); });
}

std::string TextOf(const fs::path& file, size_t most_bytes) {
  try {
    return ReadFileIfExists(file, most_bytes).value_or("");
  } catch (const Error&) {
    return "";  // it may not be read, and whoever sends it says so
  }
}

bool IsSecretsName(std::string name) {
  constexpr std::array<std::string_view, 5> kParts = {"KEY", "TOKEN", "SECRET", "PASSWORD",
                                                      "PASSWD"};
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::toupper(c); });
  return std::ranges::any_of(kParts,
                             [&](std::string_view part) { return name.find(part) != name.npos; });
}

}  // namespace

bool IsPlaceOfCredentials(std::string_view path) {
  return std::ranges::any_of(kPlaces, [&](std::string_view place) {
    return path == place || (path.ends_with(place) && path[path.size() - place.size() - 1] == '/');
  });
}

bool IsPrivateKey(const fs::path& file, const struct stat& info) {
  if (!S_ISREG(info.st_mode) || info.st_size > static_cast<off_t>(kMostKeyBytes)) return false;
  const bool is_its_owners_alone = (info.st_mode & (S_IRWXG | S_IRWXO)) == 0;
  if (!is_its_owners_alone && !IsCalledLikeAKey(file.filename().string())) return false;
  const std::string text = TextOf(file, kMostKeyBytes);
  const size_t end = text.find("PRIVATE KEY-----\n");
  const bool is_pem = end != text.npos && text.rfind("-----BEGIN ", end) != text.npos;
  return is_pem || text.starts_with("PuTTY-User-Key-File-");
}

std::vector<std::string> SecretsIn(const fs::path& file) {
  const std::string text = TextOf(file, kMostSettingsBytes);
  std::vector<std::string> names;
  for (std::string_view rest = text; !rest.empty();) {
    std::string_view line = TakeUpTo('\n', rest);
    if (line.starts_with("export ")) line.remove_prefix(7);
    const size_t equals = line.find('=');
    if (equals == line.npos || equals == 0 || equals + 1 == line.size()) continue;
    std::string name(line.substr(0, equals));
    const bool is_name =
        std::ranges::all_of(name, [](unsigned char c) { return c == '_' || std::isalnum(c) != 0; });
    if (is_name && IsSecretsName(name)) names.push_back(std::move(name));
  }
  return names;
}

}  // namespace tfdist::cli
