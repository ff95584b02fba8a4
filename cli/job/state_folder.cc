#include "cli/job/state_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "base/failures.h"
#include "base/file.h"
#include "base/hash.h"
#include "job/layout.h"
#include "job/task.h"

namespace tfdist::cli {

namespace {

constexpr size_t kBytes = 16;

std::string ReadId(const std::filesystem::path& file) {
  std::string id = ReadOwnFileIfExists(file, protocol::kMostHomeBytes).value_or("");
  return layout::IsPlainName(id, protocol::kMostHomeBytes) ? id : "";
}

}  // namespace

std::filesystem::path StateFolder() {
  // XDG Base Directory Specification: a relative path there is to be ignored.
  if (const char* state = std::getenv("XDG_STATE_HOME"); state != nullptr && state[0] == '/') {
    return std::filesystem::path(state) / "tfdist";
  }
  const char* home = std::getenv("HOME");
  if (home == nullptr || home[0] != '/') {
    throw UsageError(Phase::kFiles, "HOME is not set", "set HOME, or XDG_STATE_HOME");
  }
  // Of an account that is to have none ("/nonexistent"): root could make it.
  if (struct stat info{}; stat(home, &info) != 0 && errno == ENOENT) {
    throw UsageError(Phase::kFiles, fmt::format("there is no folder {}, which HOME names", home),
                     "set HOME, or XDG_STATE_HOME");
  }
  return std::filesystem::path(home) / ".local/state/tfdist";
}

std::string HomeId() {
  const std::filesystem::path folder = StateFolder();
  const std::filesystem::path file = folder / "home-id";
  MakePrivateFolder(folder);
  if (std::string id = ReadId(file); !id.empty()) return id;
  // Of two that come at once both get what the first one has linked.
  std::string made = RandomHex(kBytes);
  const std::filesystem::path aside = folder / ("home-id." + made);
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

std::string UserAndMachine() {
  // A static program does not look accounts up (base/getent.h), and this is only for people to read.
  const char* name = std::getenv("LOGNAME");
  if (name == nullptr) name = std::getenv("USER");
  std::string text = name != nullptr ? name : std::to_string(getuid());
  text += '@' + ThisMachine();
  std::erase_if(text, [](unsigned char c) { return c <= ' '; });
  return text.substr(0, protocol::kMostWhoBytes);
}

}  // namespace tfdist::cli
