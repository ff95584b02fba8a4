// TensorBoard's event files in a folder of a host, and a copy of them here that grows with them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cli/tensorboard/host_answer.h"

namespace tfdist::cli {

struct EventFile {
  std::string path;  // below the folder
  uint64_t size_bytes = 0;
  bool operator==(const EventFile&) const = default;
};

// Whether there is one below `folder`; else `trouble` says what find(1) has said, if anything.
struct EventFilesThere {
  bool any = false;
  std::string trouble;
};
EventFilesThere LookForEventFiles(HostTalk& talk, const std::string& folder);

// Reads what find(1) printed: "SIZE PATH" and NUL for each file, its complaints in between. What
// would lead out of the folder is passed over: hosts are not trusted with paths.
std::vector<EventFile> ParseEventFiles(std::string_view output);

struct CopyLimits {
  uint64_t file_bytes = 8 << 20;     // of one file in one update; the rest comes with the next one
  uint64_t update_bytes = 64 << 20;  // of one update
  uint64_t all_bytes = 1 << 30;      // of all files, as long as the copy lives
};

// A copy in a folder of this machine.
class EventFilesCopy {
 public:
  // Makes a folder below the one for temporary files. `talk` (borrowed): with the host. Throws
  // Error(kFiles).
  EventFilesCopy(HostTalk& talk, std::string folder, CopyLimits limits = {});
  EventFilesCopy(const EventFilesCopy&) = delete;
  EventFilesCopy& operator=(const EventFilesCopy&) = delete;
  ~EventFilesCopy();  // removes the folder

  struct Trouble {
    std::string what;
    std::string remedy;
  };
  // Fetches what has come since: event files grow at their end alone. A file that cannot be read is
  // passed over from then on. Returns what the user must know of that, each thing once. Throws Error
  // with the host, TalkInterrupted.
  std::vector<Trouble> Update();
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  // How many bytes came; nullopt: the file cannot be read, and `why` says what was heard.
  std::optional<uint64_t> Fetch(const EventFile& file, uint64_t from, uint64_t wanted,
                                std::string& why);
  void Append(const std::string& path, std::string_view bytes) const;

  HostTalk& talk_;
  std::string folder_;  // on the host
  CopyLimits limits_;
  std::filesystem::path path_;
  uint64_t copied_bytes_ = 0;
  bool said_full_ = false;
  std::set<std::string> unreadable_;  // paths
};

}  // namespace tfdist::cli
