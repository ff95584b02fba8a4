#include "cli/pull/brought.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/text.h"
#include "cli/job/state_folder.h"

namespace tfdist::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostBytes = size_t{1} << 30;

std::string LineOf(const std::string& path, const std::string& mark) {
  return path + '\0' + mark + '\0';
}

}  // namespace

Brought::Brought(const fs::path& folder, const std::string& job)
    : folder_(fs::canonical(folder)), job_(job) {
  const fs::path memory = StateFolder() / "brought";
  const fs::path path = memory / Sha256Hex(folder_.string());
  MakePrivateFolder(memory);
  const std::string lines = ReadOwnFileIfExists(path, kMostBytes).value_or("");
  size_t count = 0;
  for (std::string_view rest = lines; !rest.empty(); ++count) {
    const std::string_view name = TakeUpTo('\0', rest);
    marks_.insert_or_assign(std::string(name), std::string(TakeUpTo('\0', rest)));
  }
  if (count > 2 * marks_.size()) {
    std::string newest;
    for (const auto& [name, mark] : marks_) newest += LineOf(name, mark);
    ReplaceFile(path, newest, 0600);
  }
  file_ = OpenFile(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW);
}

bool Brought::MayReplace(const std::string& path) const {
  if (InTheWay(folder_, path)) return false;
  return !MarkOf(path) || BehindMark(path);
}

void Brought::Note(const std::string& path, int64_t inode_changed_ns) {
  const std::string host_time = inode_changed_ns == 0 ? "" : fmt::format(" {}", inode_changed_ns);
  if (const auto mark = MarkOf(path)) Remember(path, *mark + host_time);
}

bool Brought::IsOutdated(const std::string& path, int64_t inode_changed_ns) const {
  const auto host_time = BehindMark(path).value_or("");
  return inode_changed_ns != 0 && !host_time.empty() &&
         host_time != fmt::format(" {}", inode_changed_ns);
}

std::optional<std::string> Brought::BehindMark(const std::string& path) const {
  const auto mark = MarkOf(path);
  const auto known = marks_.find(path);
  if (!mark || known == marks_.end() || !known->second.starts_with(*mark)) return std::nullopt;
  return known->second.substr(mark->size());
}

void Brought::NoteFolder(const Folder& folder) {
  if (const auto mark = MarkOf(folder)) Remember(folder.path + '/', *mark);
}

std::vector<Brought::Folder> Brought::Folders() const {
  std::vector<Folder> folders;
  for (auto mark = marks_.rbegin(); mark != marks_.rend(); ++mark) {
    if (!mark->first.ends_with('/')) continue;
    Folder folder{.path = mark->first.substr(0, mark->first.size() - 1)};
    for (const bool is_finished : {false, true}) {
      folder.is_finished = is_finished;
      if (MarkOf(folder) == mark->second) folders.push_back(folder);
    }
  }
  return folders;
}

void Brought::Remember(const std::string& path, const std::string& mark) {
  std::string& known = marks_[path];
  if (known == mark) return;
  known = mark;
  WriteAll(file_.get(), LineOf(path, mark), "what was brought");
}

// nullopt: nothing is there.
std::optional<std::string> Brought::MarkOf(const std::string& path) const {
  struct stat info {};
  if (lstat((folder_ / path).c_str(), &info) != 0) return std::nullopt;
  return fmt::format("{} {} {}.{:09}", job_, info.st_size, info.st_mtim.tv_sec,
                     info.st_mtim.tv_nsec);
}

std::optional<std::string> Brought::MarkOf(const Folder& folder) const {
  struct stat info {};
  if (lstat((folder_ / folder.path).c_str(), &info) != 0) return std::nullopt;
  return fmt::format("{} {}{}", job_, info.st_ino, folder.is_finished ? " finished" : "");
}

std::optional<std::string> InTheWay(const std::filesystem::path& folder, const std::string& path) {
  for (size_t slash = path.find('/'); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    const std::string above = path.substr(0, slash);
    struct stat info {};
    if (lstat((folder / above).c_str(), &info) != 0) return std::nullopt;
    if (!S_ISDIR(info.st_mode)) return above;
  }
  return std::nullopt;
}

}  // namespace tfdist::cli
