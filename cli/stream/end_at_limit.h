// Ends the whole command at the user's --timeout, while one of its steps still waits.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "base/clock.h"
#include "base/unique_fd.h"

namespace tfdist::cli {

// While it lives: at `limit` it prints "tfdist: --timeout has passed: WORDS", and ends the process with kExitTimedOut. Hosts may not have
// answered, and their waits are not the user's. nullopt: never.
class EndAtLimit {
 public:
  // `words` is called on a thread of its own.
  EndAtLimit(std::optional<TimePoint> limit, std::function<std::string()> words);
  EndAtLimit(const EndAtLimit&) = delete;
  EndAtLimit& operator=(const EndAtLimit&) = delete;
  ~EndAtLimit();

 private:
  void Watch(TimePoint limit) const;

  const std::function<std::string()> words_;
  const UniqueFd done_;
  std::thread thread_;  // last: it uses the others
};

}  // namespace tfdist::cli
