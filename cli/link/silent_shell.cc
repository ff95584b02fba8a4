#include "cli/link/silent_shell.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "cli/channel/tail.h"

namespace tfdist::cli {
namespace {

// How the second /bin/sh ends if it has read what it was sent.
constexpr int kRead = 42;

}  // namespace

SilentShell::SilentShell(ByteChannel& first, TimePoint deadline) : answer_(RandomHex(16)) {
  try {
    channel_ = first.OpenAnother(deadline);
    if (!channel_) return;
    // One line: a start-up file may read the first one.
    channel_->Write(fmt::format("echo {}; exit {}\n", answer_, kRead), deadline);
    channel_->CloseInput(deadline);
  } catch (const Error&) {  // as a host does that opens one session only
    channel_.reset();
  }
}

SilentShell::Finding SilentShell::FindOut(TimePoint deadline) {
  try {
    while (channel_) {
      std::string more;
      const auto result = channel_->Read(more, deadline);
      AppendToTail(said_, more);
      if (said_.find(answer_) != std::string::npos) {  // the first shell is only slow
        channel_.reset();
      } else if (result == ByteChannel::ReadResult::kEndOfFile) {
        return Conclude(deadline);
      } else if (SystemClock().Now() >= deadline) {
        return Finding::kNothing;
      }
    }
  } catch (const Error&) {
    channel_.reset();
  }
  return Finding::kNothing;
}

// The answer has not come, and never will.
SilentShell::Finding SilentShell::Conclude(TimePoint deadline) {
  constexpr std::chrono::milliseconds kTurn{100};
  const auto status =
      channel_->ExitStatus(std::max<TimePoint>(deadline, SystemClock().Now() + kTurn));
  if (!status) return Finding::kNothing;  // its output is closed, and it may run
  channel_.reset();
  if (*status == kRead) return Finding::kNoOutput;
  return *status == 0 ? Finding::kInputTaken : Finding::kNothing;
}

}  // namespace tfdist::cli
