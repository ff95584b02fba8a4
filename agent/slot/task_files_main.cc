#include "agent/slot/task_files_main.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <filesystem>

#include "agent/slot/kept_folder.h"
#include "agent/slot/task_files.h"
#include "base/error.h"
#include "base/failures.h"
#include "base/file.h"
#include "base/log.h"
#include "base/unique_fd.h"
#include "job/layout.h"

namespace tfdist::agent {
namespace {

namespace fs = std::filesystem;

constexpr size_t kPieceBytes = 256 * 1024;

void Put(std::string_view bytes) { WriteAll(STDOUT_FILENO, bytes, "stdout"); }

// Enough for a user to see where they are.
constexpr size_t kMostBesides = 100;

// `arguments`: those of the role.
int List(const TaskFiles& listed, const std::vector<std::string>& arguments,
         std::string text = {}) {
  // A tfdist of an earlier version does not read it.
  const bool with_ctime = arguments.size() > 1 && arguments[1] == "ctime";
  for (const std::string& path : listed.unreadable) {
    text += "unreadable " + path;
    text += '\0';
  }
  const size_t besides = std::min(listed.beside.size(), kMostBesides);
  for (size_t at = 0; at < besides; ++at) {
    text += "beside " + listed.beside[at].string();
    text += '\0';
  }
  for (const TaskFile& file : listed.files) {
    const bool is_link = !file.target.empty();
    text += file.is_folder ? "folder" : is_link ? "link" : std::to_string(file.size_bytes);
    text += fmt::format(":{:o} {}", file.mode, file.changed_ns);
    if (with_ctime) text += fmt::format(":{}", file.inode_changed_ns);
    text += ' ' + file.path;
    text += '\0';
    if (is_link) text += file.target + '\0';
    if (text.size() < kPieceBytes) continue;
    Put(text);
    text.clear();
  }
  text += "end";
  text += '\0';
  Put(text);
  return 0;
}

// "slot 3" for each slot of the job that has its folder here. Slots that see each other's share this base, and with it what is
// kept: files that are alike in name, size and time need not be one file.
std::string SlotsOfTheJobHere(const SlotFolder& own) {
  std::string text;
  std::error_code error;
  // Not a range's for: its ++ throws.
  for (fs::directory_iterator entry(own.path().parent_path(), error), end; !error && entry != end;
       entry.increment(error)) {
    const auto slot = layout::ParseSlotName(entry->path().filename().string());
    if (!slot) continue;
    text += fmt::format("slot {}", *slot);
    text += '\0';
  }
  return text;
}

// Where the data that begins at `offset` ends, or where a hole does that is there: lseek(2). A file system without holes says that all is
// data.
struct Stretch {
  uint64_t end = 0;
  bool is_hole = false;
};
Stretch StretchAt(const UniqueFd& file, uint64_t offset, uint64_t end) {
  const off_t data = lseek(file.get(), static_cast<off_t>(offset), SEEK_DATA);
  if (data < 0) return {end, errno == ENXIO};
  const auto begin = static_cast<uint64_t>(data);
  if (begin > offset) return {std::min(begin, end), true};
  const off_t hole = lseek(file.get(), data, SEEK_HOLE);
  return {hole < 0 ? end : std::min(static_cast<uint64_t>(hole), end), false};
}

// What there was when it was listed: it may grow faster than it is sent. False: not to its end, or
// it was written to meanwhile otherwise than at its end.
bool SendFrom(const UniqueFd& file, uint64_t offset, uint64_t end, bool leaves_holes) {
  struct stat before {};
  struct stat after {};
  if (fstat(file.get(), &before) != 0) return false;
  end = std::min(end, static_cast<uint64_t>(before.st_size));
  std::string piece;
  Stretch stretch{leaves_holes ? offset : end};
  while (offset < end) {
    if (offset >= stretch.end) stretch = StretchAt(file, offset, end);
    if (stretch.is_hole) {
      Put(fmt::format("h{}\n", stretch.end - offset));
      offset = stretch.end;
      continue;
    }
    piece.resize(std::min<uint64_t>(kPieceBytes, stretch.end - offset));
    const ssize_t got = pread(file.get(), piece.data(), piece.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    piece.resize(static_cast<size_t>(got));
    Put(fmt::format("{}\n", got));
    Put(piece);
    offset += static_cast<uint64_t>(got);
  }
  if (fstat(file.get(), &after) != 0) return false;
  const bool same_time = after.st_mtim.tv_sec == before.st_mtim.tv_sec &&
                         after.st_mtim.tv_nsec == before.st_mtim.tv_nsec;
  return same_time || after.st_size > before.st_size;
}

// Those that `arguments` name, from the second one on.
int Send(const fs::path& root, const std::vector<std::string>& arguments) {
  for (size_t at = 1; at + 1 < arguments.size(); at += 2) {
    // "0-1000-h"; a tfdist of an earlier version takes no holes, or gives no end.
    const std::string& range = arguments[at];
    const char* last = range.data() + range.size();
    uint64_t offset = 0;
    uint64_t end = UINT64_MAX;
    const char* dash = std::from_chars(range.data(), last, offset).ptr;
    if (dash != last) std::from_chars(dash + 1, last, end);
    const bool takes_holes = range.ends_with("-h");
    const fs::path path = root / arguments[at + 1];
    const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    const bool may_read = file.valid() || errno == ENOENT;
    const bool whole = file.valid() && SendFrom(file, offset, end, takes_holes);
    Put(whole ? "0\n" : may_read ? "-1\n" : "-2\n");
  }
  return 0;
}

}  // namespace

int TaskFilesMain(const std::vector<std::string>& arguments) {
  SetLogName("task-files");
  const SlotFolder folder(fs::read_symlink("/proc/self/exe").parent_path());
  const std::string word = arguments.empty() ? "" : arguments[0];
  if (word == "list") {
    return List(ListTaskFiles(folder), arguments,
                IsWorkFolderGone(folder) ? std::string("gone\0", 5) : "");
  }
  if (word == "send") return Send(folder.work(), arguments);
  const auto kept = [&] { return KeptFolder(ReadOrInferSlotInfo(folder)); };
  if (word == "list-kept") {
    return List(ListKeptFiles(kept()), arguments, SlotsOfTheJobHere(folder));
  }
  if (word == "send-kept") return Send(kept(), arguments);
  throw UsageError(Phase::kUsage, "task-files: list or send, or list-kept or send-kept");
}

}  // namespace tfdist::agent
