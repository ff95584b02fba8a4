#include "cli/job/state_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/failures.h"
#include "base/file.h"
#include "base/getent.h"
#include "base/hash.h"
#include "job/layout.h"
#include "job/task.h"

namespace tfdist::cli {

namespace {

namespace fs = std::filesystem;

constexpr size_t kBytes = 16;

// Empty: not set. XDG Base Directory Specification: a relative path there is to be ignored.
fs::path FolderFrom(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && value[0] == '/' ? value : "";
}

std::string ReadId(const std::filesystem::path& file) {
  std::string id = ReadOwnFileIfExists(file, protocol::kMostHomeBytes).value_or("");
  return layout::IsPlainName(id, protocol::kMostHomeBytes) ? id : "";
}

}  // namespace

fs::path StateFolder() {
  if (const fs::path state = FolderFrom("XDG_STATE_HOME"); !state.empty()) return state / "tfdist";
  const fs::path home = FolderFrom("HOME");
  if (home.empty()) {
    const char* const given = std::getenv("HOME");
    const bool is_relative = given != nullptr && *given != '\0';
    throw UsageError(
        Phase::kFiles,
        is_relative ? fmt::format("HOME is a relative path, {}", given) : "HOME is not set",
        "set HOME, or XDG_STATE_HOME");
  }
  // Of an account that is to have none ("/nonexistent"): root could make it.
  if (struct stat info{}; stat(home.c_str(), &info) != 0 && errno == ENOENT) {
    throw UsageError(Phase::kFiles,
                     fmt::format("there is no folder {}, which HOME names", home.string()),
                     "set HOME, or XDG_STATE_HOME");
  }
  return home / ".local/state/tfdist";
}

fs::path CacheFolder() {
  if (const fs::path cache = FolderFrom("XDG_CACHE_HOME"); !cache.empty()) return cache / "tfdist";
  const fs::path home = FolderFrom("HOME");
  return home.empty() ? home : home / ".cache/tfdist";
}

std::vector<fs::path> OwnFolders(const std::string& remote_dir) {
  const fs::path home = FolderFrom("HOME");
  std::vector<fs::path> folders = {CacheFolder(), home / ".cache/tfdist", home / ".tfdist"};
  if (const fs::path state = FolderFrom("XDG_STATE_HOME"); !state.empty()) {
    folders.push_back(state / "tfdist");
  } else {
    folders.push_back(home / ".local/state/tfdist");
  }
  // A folder of that name may be the user's on this machine: one of tfdist's has jobs.
  const bool in_home = remote_dir == "~" || remote_dir.starts_with("~/");
  const fs::path chosen =
      home / (in_home ? remote_dir.substr(std::min(remote_dir.size(), size_t{2})) : remote_dir) /
      "tfdist";
  if (std::error_code none; !remote_dir.empty() && fs::is_directory(chosen / "jobs", none))
    folders.push_back(chosen);
  std::erase_if(folders, [](const fs::path& folder) { return folder.is_relative(); });
  for (fs::path& folder : folders) {
    std::error_code none;
    if (fs::path real = fs::weakly_canonical(folder, none); !none) folder = std::move(real);
  }
  return folders;
}

std::string HomeId() {
  const fs::path folder = StateFolder();
  const fs::path file = folder / "home-id";
  MakePrivateFolder(folder);
  if (std::string id = ReadId(file); !id.empty()) return id;
  // Of two that come at once both get what the first one has linked.
  std::string made = RandomHex(kBytes);
  const fs::path aside = folder / ("home-id." + made);
  ReplaceFile(aside, made, 0600);
  const bool is_first = link(aside.c_str(), file.c_str()) == 0;
  unlink(aside.c_str());
  if (is_first) return made;
  if (std::string id = ReadId(file); !id.empty()) return id;
  ReplaceFile(file, made, 0600);  // a file system without links, or a file that holds no id
  return made;
}

std::string ThisMachine() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

namespace {

// As a login has it; a service or a container may have no such variable.
std::string UserName() {
  for (const char* variable : {"LOGNAME", "USER"}) {
    const char* name = std::getenv(variable);
    if (name != nullptr && *name != '\0') return name;
  }
  constexpr size_t kMostPasswdBytes = 16 << 20;
  constexpr std::chrono::seconds kDirectoryLimit{3};
  const uid_t account = getuid();
  std::string name =
      NameInPasswd(ReadFileIfExists("/etc/passwd", kMostPasswdBytes).value_or(""), account);
  if (name.empty()) {
    const auto answer =
        AskGetent("passwd", std::to_string(account), SystemClock().Now() + kDirectoryLimit);
    if (answer && answer->exit_code == 0) name = NameInPasswd(answer->output, account);
  }
  return name.empty() ? std::to_string(account) : name;
}

}  // namespace

std::string UserAndMachine() {
  std::string text = UserName() + '@' + ThisMachine();
  std::erase_if(text, [](unsigned char c) { return c <= ' '; });
  return text.substr(0, protocol::kMostWhoBytes);
}

std::string WithoutOwnName(std::string why) {
  const std::string own = ", started by " + UserAndMachine();
  if (why.ends_with(own)) why.resize(why.size() - own.size());
  return why;
}

}  // namespace tfdist::cli
