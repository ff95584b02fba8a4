#include "cli/pull/remote_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "base/clock.h"
#include "base/failures.h"
#include "base/text.h"
#include "cli/channel/tail.h"
#include "cli/job/connector.h"
#include "cli/link/bootstrap.h"
#include "cli/link/host_command.h"
#include "cli/link/pace.h"

namespace tfdist::cli {
namespace {

using namespace std::chrono_literals;

constexpr auto kStartLimit = 30s;
constexpr auto kListLimit = 10min;
constexpr size_t kMostDepth = 64;
constexpr size_t kMostFolders = 200'000;
constexpr size_t kMostListBytes = 256 << 20;
constexpr size_t kMostHeaderBytes = 20;
constexpr size_t kMostPathBytes = 4096;
constexpr size_t kMostSlots = 100'000;
constexpr size_t kMostFiles = 2'000'000;
// Of the words of one command: far below what execve(2) takes.
constexpr size_t kMostWordBytes = 64 * 1024;

[[noreturn]] void FailMalformed(std::string_view what) {
  throw ProtocolError(Phase::kFiles, fmt::format("the host sends no list of files: {}", what));
}

template <typename Number>
Number ParseNumber(std::string_view text, int base = 10) {
  Number number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number, base);
  if (error != std::errc() || stop != end) FailMalformed(OnOneLine(text));
  return number;
}

// It is to lie below the folder that we write to.
void CheckPath(std::string_view path) {
  if (path.empty() || path.size() > kMostPathBytes) FailMalformed("a path without a name");
  if (std::ranges::count(path, '/') > static_cast<ptrdiff_t>(kMostDepth)) {
    FailMalformed("a file below more than 64 folders");
  }
  while (true) {
    const size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    if (part.empty() || part == "." || part == "..") FailMalformed("a path that leads elsewhere");
    if (slash == std::string_view::npos) return;
    path.remove_prefix(slash + 1);
  }
}

// Runs the agent there. `on_output` gets what it prints, and says by when more must have come.
void RunAgent(const JobRecord& record, int slot, std::vector<std::string> arguments,
              TimePoint give_up, const std::function<TimePoint(std::string_view)>& on_output,
              std::function<bool()> is_off = {}, AskedTogether* together = nullptr) {
  TimePoint deadline = SystemClock().Now() + kStartLimit;
  const auto transport = TransportToJob(record, slot, std::move(is_off), together);
  HostCommand command;
  command.words = {"task-files"};
  command.words.insert(command.words.end(), arguments.begin(), arguments.end());
  command.job = record.id;
  command.slot = slot;
  command.base = BaseOf(record, slot);
  command.known = KnownBaseOf(record, slot);
  auto shell = transport->OpenShell(deadline);
  if (together != nullptr) together->NoteAnswer();
  RunningCommand running(std::move(shell), command, deadline);
  std::string output;
  while (true) {
    const auto end = running.Read(output, give_up);
    if (end && (end->status == 126 || end->status == 127)) {
      throw NothingThere(Phase::kFiles, "the job has no folder here any more",
                         "was it cleaned? Then its files are gone");
    }
    if (!output.empty()) give_up = on_output(output);
    output.clear();
    if (end) return;
    if (SystemClock().Now() >= give_up) {
      throw LostConnection(Phase::kFiles, "the host sends next to nothing",
                           "pull again: it goes on");
    }
  }
}

// The folders of files in each other count as well.
void CountFolders(std::string_view path, std::set<std::string_view>& folders) {
  for (size_t slash = path.rfind('/'); slash != path.npos; slash = path.rfind('/')) {
    path = path.substr(0, slash);
    if (!folders.insert(path).second) return;
    if (folders.size() > kMostFolders) FailMalformed("more than 200,000 folders");
  }
}

FileEnd FileEndOf(int64_t number) {
  if (number == 0) return FileEnd::kWhole;
  if (number == -1) return FileEnd::kChanged;
  if (number == -2) return FileEnd::kUnreadable;
  FailMalformed(std::to_string(number));
}

}  // namespace

RemoteListing ParseRemoteFiles(std::string_view records) {
  RemoteListing listing;
  std::set<std::string_view> folders;
  while (!records.empty()) {
    std::string_view record = TakeUpTo('\0', records);
    if (record == "end") return listing;
    RemoteFile file;
    std::string_view mode = TakeUpTo(' ', record);
    if (mode == "gone") {
      listing.is_gone = true;
      continue;
    }
    if (mode == "slot") {
      if (listing.slots.size() == kMostSlots) FailMalformed("more than 100,000 slots");
      listing.slots.push_back(ParseNumber<int>(record));
      continue;
    }
    if (mode == "unreadable" || mode == "beside") {
      auto& list = mode == "beside" ? listing.beside : listing.unreadable;
      if (list.size() == kMostFolders) FailMalformed("more than 200,000 folders");
      list.emplace_back(record);
      continue;
    }
    const std::string_view kind = TakeUpTo(':', mode);
    const bool is_link = kind == "link";
    const bool is_folder = kind == "folder";
    if (!is_link && !is_folder) file.size_bytes = ParseNumber<uint64_t>(kind);
    if (mode.empty()) {
      listing.is_old = true;
    } else {
      file.mode = ParseNumber<uint32_t>(mode, 8);
    }
    std::string_view times = TakeUpTo(' ', record);
    file.changed_ns = ParseNumber<int64_t>(TakeUpTo(':', times));
    if (!times.empty()) file.inode_changed_ns = ParseNumber<int64_t>(times);
    CheckPath(record);
    CountFolders(record, folders);
    file.path = record;
    if (is_link) file.target = TakeUpTo('\0', records);
    if (is_link && file.target.empty()) FailMalformed("a link that leads nowhere");
    auto& list = is_folder ? listing.folders : listing.files;
    if (list.size() == kMostFiles) FailMalformed("more than 2,000,000 files");
    list.push_back(std::move(file));
  }
  throw Error(Phase::kFiles, "the list of its files has no end",
              "is the job's agent older than this tfdist?");
}

void SentFiles::Take(std::string_view bytes) {
  while (!bytes.empty()) {
    if (left_bytes_ > 0) {
      const auto piece = bytes.substr(0, std::min<uint64_t>(left_bytes_, bytes.size()));
      on_bytes_(at_, piece);
      left_bytes_ -= piece.size();
      bytes.remove_prefix(piece.size());
      continue;
    }
    if (at_ == limits_.size()) FailMalformed("more files than were asked for");
    const size_t newline = bytes.find('\n');
    header_ += bytes.substr(0, newline);
    if (header_.size() > kMostHeaderBytes) FailMalformed(OnOneLine(header_));
    if (newline == std::string_view::npos) return;
    bytes.remove_prefix(newline + 1);
    const std::string header = std::exchange(header_, {});
    if (header.starts_with('h')) {
      TakeHole(ParseNumber<uint64_t>(std::string_view(header).substr(1)));
      continue;
    }
    const auto size = ParseNumber<int64_t>(header);
    if (size > 0) {
      left_bytes_ = static_cast<uint64_t>(size);
      const uint64_t listed = std::min(left_bytes_, limits_[at_]);
      const uint64_t grown = left_bytes_ - listed;
      if (grown > grown_bytes_) FailMalformed("more bytes of a file than it has listed");
      limits_[at_] -= listed;
      grown_bytes_ -= grown;
    } else {
      on_end_(at_++, FileEndOf(size));
    }
  }
}

void SentFiles::TakeHole(uint64_t bytes) {
  if (!on_hole_) FailMalformed("a hole");
  if (bytes > limits_[at_]) FailMalformed("more bytes of a file than it has listed");
  limits_[at_] -= bytes;
  on_hole_(at_, bytes);
}

RemoteListing ListRemoteFiles(const JobRecord& record, int slot, TaskRoot root,
                              std::function<bool()> is_off, AskedTogether& together) {
  std::string records;
  const TimePoint give_up = SystemClock().Now() + kListLimit;
  RunAgent(
      record, slot, {root == TaskRoot::kKeep ? "list-kept" : "list", "ctime"}, give_up,
      [&](std::string_view output) {
        records += output;
        if (records.size() > kMostListBytes) FailMalformed("it is longer than 256 MiB");
        return give_up;
      },
      std::move(is_off), &together);
  // An agent of an earlier version refuses the word, and keeps nothing.
  if (root == TaskRoot::kKeep && records.empty()) return {};
  return ParseRemoteFiles(records);
}

void SendRemoteFiles(const JobRecord& record, int slot, TaskRoot root,
                     const std::vector<RemoteFile>& files, const std::vector<uint64_t>& offsets,
                     SentFiles& sent) {
  for (size_t at = 0; at < files.size();) {
    std::vector<std::string> words = {root == TaskRoot::kKeep ? "send-kept" : "send"};
    for (size_t bytes = 0; at < files.size() && bytes < kMostWordBytes; ++at) {
      words.push_back(fmt::format("{}-{}-h", offsets[at], files[at].size_bytes));
      words.push_back(files[at].path);
      bytes += words.back().size() + 64;
    }
    Pace pace(SystemClock().Now() + kStartLimit);
    RunAgent(record, slot, std::move(words), pace.until(), [&](std::string_view output) {
      const size_t ended = sent.ended();
      sent.Take(output);
      pace.Add(output.size(), sent.ended() - ended, SystemClock().Now());
      return pace.until();
    });
    if (sent.ended() != at) {
      throw LostConnection(Phase::kFiles, "not all files have come", "pull again: it goes on");
    }
  }
}

}  // namespace tfdist::cli
