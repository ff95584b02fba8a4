// Why a host's shell is silent: a second session on the same connection tells whether the account's start-up files are slow, or
// whether they have taken its output or its input away.
#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "cli/channel/byte_channel.h"

namespace tfdist::cli {

class SilentShell {
 public:
  // Opens the second session, where the channel can.
  SilentShell(ByteChannel& first, TimePoint deadline);

  enum class Finding {
    kNothing,     // so far
    kNoOutput,    // /bin/sh has done what it was sent, and what it prints does not come
    kInputTaken,  // it has had no input, or has not run
  };
  // Waits until `deadline`.
  Finding FindOut(TimePoint deadline);

 private:
  Finding Conclude(TimePoint deadline);

  std::unique_ptr<ByteChannel> channel_;  // none: nothing more is to come
  std::string answer_;                    // what /bin/sh is to print
  std::string said_;
};

}  // namespace tfdist::cli
