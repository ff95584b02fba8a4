// A command that Ctrl-C ends at any moment, and that says first what it has done.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "base/unique_fd.h"
#include "cli/stream/interrupts.h"

namespace tfdist::cli {

// While it lives, SIGINT and SIGTERM print "tfdist: interrupted: WORDS" and end the process with kExitInterrupted. No
// other Interrupts may live beside it.
class EndAtInterrupt {
 public:
  // `words` is called on a thread of its own.
  explicit EndAtInterrupt(std::function<std::string()> words);
  // Hears by `heard`, which outlives it: a Ctrl-C that came before, and that nobody has taken, ends the process too.
  EndAtInterrupt(std::function<std::string()> words, const Interrupts& heard);
  EndAtInterrupt(const EndAtInterrupt&) = delete;
  EndAtInterrupt& operator=(const EndAtInterrupt&) = delete;
  ~EndAtInterrupt();

 private:
  void Watch() const;

  const std::function<std::string()> words_;
  const std::optional<Interrupts> own_;
  const Interrupts& interrupts_;
  const UniqueFd done_;
  std::thread thread_;  // last: it uses the others
};

}  // namespace tfdist::cli
