// TensorBoard's event files in a folder of a host, and a copy of them here that grows with them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands/sites.h"

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
EventFilesThere LookForEventFiles(const Site& site, const SshOptions& ssh,
                                  const std::string& folder);

// Reads what find(1) printed: "SIZE PATH" and NUL for each file, its complaints in between. What
// would lead out of the folder is passed over: hosts are not trusted with paths.
std::vector<EventFile> ParseEventFiles(std::string_view output);

// A copy in a folder of this machine.
class EventFilesCopy {
 public:
  // Makes a folder below the one for temporary files. Throws Error(kFiles).
  EventFilesCopy(Site site, SshOptions ssh, std::string folder);
  EventFilesCopy(const EventFilesCopy&) = delete;
  EventFilesCopy& operator=(const EventFilesCopy&) = delete;
  ~EventFilesCopy();  // removes the folder

  // Fetches what has come since: event files grow at their end alone. Throws Error with the host.
  void Update();
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  void Fetch(const EventFile& file, uint64_t from);

  Site site_;
  SshOptions ssh_;
  std::string folder_;  // on the host
  std::filesystem::path path_;
};

}  // namespace tfdist::cli
