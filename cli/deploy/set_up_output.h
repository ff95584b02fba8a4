// What the set-up commands of hosts print, as whole lines with the host's name in front, from many threads to one.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/thread_annotations.h"
#include "wire/set_up.h"

namespace tfdist::cli {

// Any thread. Memory: what has come since the last Take(), of each host 512 KiB at most at a time.
class SetUpOutput {
 public:
  void Add(const std::string& host, const protocol::SetUpProgress& progress);
  // The host's last line, where it has no newline.
  void Finish(const std::string& host);
  // Once each.
  std::vector<std::string> Take();

 private:
  void AddLine(const std::string& host, std::string_view line) REQUIRES(mutex_);

  Mutex mutex_;
  std::map<std::string, std::string> unfinished_ GUARDED_BY(mutex_);
  std::vector<std::string> lines_ GUARDED_BY(mutex_);
};

}  // namespace tfdist::cli
