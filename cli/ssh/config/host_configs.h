// ssh's configuration of many hosts: `ssh -G` is asked once for those that it cannot tell apart.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/thread_annotations.h"
#include "cli/ssh/config/config_patterns.h"
#include "cli/ssh/config/openssh_config.h"
#include "cli/ssh/config/target.h"

namespace tfdist::ssh {

// Answers of a few seconds ago are taken again: many hosts are reached within moments, and a
// configuration may change between. For any thread.
class HostConfigs {
 public:
  // Throws as ReadConfig.
  HostConfig Of(const Target& target, TimePoint deadline);

 private:
  // What `ssh -G` said for one host, as far as it holds for all of its signature.
  struct Answer {
    Mutex mutex;
    bool asked GUARDED_BY(mutex) = false;
    std::optional<std::string> common GUARDED_BY(mutex);
  };
  // Targets that differ in their names alone.
  struct Kind {
    TimePoint since{};
    Mutex mutex;
    bool asked GUARDED_BY(mutex) = false;
    std::optional<ConfigPatterns> patterns GUARDED_BY(mutex);  // unless hosts may differ otherwise
    std::map<std::string, std::shared_ptr<Answer>> answers GUARDED_BY(mutex);  // by signature
  };

  std::shared_ptr<Kind> KindOf(const Target& target);
  // The first of its kind asks ssh for itself as well: `own_output`. nullptr: hosts of this kind are asked for one by
  // one.
  static std::shared_ptr<Answer> AnswerFor(Kind& kind, const Target& target, TimePoint deadline,
                                           std::optional<std::string>& own_output);

  Mutex mutex_;
  std::map<std::string, std::shared_ptr<Kind>> kinds_ GUARDED_BY(mutex_);
};

}  // namespace tfdist::ssh
