#include "cli/ssh/config/config_paths.h"

#include <unistd.h>

#include <chrono>
#include <cstdlib>

#include "base/clock.h"
#include "base/file.h"
#include "base/getent.h"
#include "base/text.h"

namespace tfdist::ssh {
namespace {

constexpr size_t kMaxPasswdBytes = 16 << 20;
// A directory server may have to be asked.
constexpr std::chrono::seconds kPasswdLimit{10};
std::string LookUpHomeFolder() {
  const uid_t account = getuid();
  const auto local = ReadFileIfExists("/etc/passwd", kMaxPasswdBytes);
  std::string home = HomeInPasswd(local.value_or(""), account);
  if (home.empty()) {
    const auto answer =
        AskGetent("passwd", std::to_string(account), SystemClock().Now() + kPasswdLimit);
    if (answer && answer->exit_code == 0) home = HomeInPasswd(answer->output, account);
  }
  const char* variable = std::getenv("HOME");
  return home.empty() && variable != nullptr ? variable : home;
}

bool Exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

}  // namespace

const std::string& HomeFolder() {
  static const std::string home = LookUpHomeFolder();
  return home;
}

std::optional<std::string> PlainPath(std::string_view path) {
  if (path.find_first_of("%$") != path.npos) return std::nullopt;
  if (path.starts_with('/')) return std::string(path);
  // ssh before 8.4 prints "~" as it was written.
  if (path.starts_with("~/")) return HomeFolder() + std::string(path.substr(1));
  return std::nullopt;
}

std::optional<std::vector<std::string>> KnownHostsFiles(std::string_view value) {
  std::vector<std::string> files;
  while (!value.empty()) {
    // Blanks at an end of a path are printed as all others are.
    const bool more = value.find(' ') != value.npos;
    const auto file = PlainPath(TakeUpTo(' ', value));
    if (!file || more == value.empty()) return std::nullopt;
    files.push_back(*file);
  }
  for (size_t i = 0; i < files.size(); ++i) {
    std::string joined = files[i];
    for (size_t j = i + 1; j < files.size(); ++j) {
      joined.append(" ").append(files[j]);
      if (Exists(joined)) return std::nullopt;
    }
  }
  return files;
}

}  // namespace tfdist::ssh
