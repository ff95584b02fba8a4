#include "cli/link/boot_conversation.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/failures.h"
#include "base/process_limits.h"
#include "base/text.h"
#include "cli/channel/tail.h"

namespace tfdist::cli {
namespace {

// Our scripts' lines are short; a host that sends a longer one is not running them.
constexpr size_t kMaxLineBytes = 64 * 1024;
// Of all lines together: some 100,000 folders of jobs.
constexpr size_t kMaxLinesBytes = 16 * 1024 * 1024;
constexpr std::chrono::seconds kTurn{1};
// Whoever has less time looks how a host is, or rolls back: nobody waits long for that.
constexpr std::chrono::seconds kPatient{25};
// After it the user is told what is waited for.
constexpr std::chrono::seconds kNamedAfter{5};
// A second session is for start-up files that are slower than most: it runs them once more.
constexpr std::chrono::seconds kAskedAfter{10};
constexpr std::chrono::seconds kFindsOut{5};
constexpr std::string_view kEndEarly =
    "end it before that where nobody types: case $- in *i*) ;; *) return ;; esac";
// Start-up files print less.
constexpr size_t kMuchNoise = 1024 * 1024;
constexpr size_t kMuchOnStderr = 64 * 1024;  // which is all that is kept of it

// A channel of which the first bytes have been read already.
class ResumedChannel : public ByteChannel {
 public:
  ResumedChannel(std::unique_ptr<ByteChannel> channel, std::string first)
      : channel_(std::move(channel)), first_(std::move(first)) {}

  ReadResult Read(std::string& out, TimePoint deadline) override {
    if (first_.empty()) return channel_->Read(out, deadline);
    out += std::exchange(first_, {});
    return ReadResult::kData;
  }
  void Write(std::string_view bytes, TimePoint deadline) override {
    channel_->Write(bytes, deadline);
  }
  [[nodiscard]] int PollFd() const override { return channel_->PollFd(); }
  [[nodiscard]] std::string Stderr() const override { return channel_->Stderr(); }

 private:
  std::unique_ptr<ByteChannel> channel_;
  std::string first_;
};

std::string Shown(std::string_view what, std::string_view text) {
  const std::string line = OnOneLine(text);
  return line.empty() ? std::string() : fmt::format("; {}: {}", what, line);
}

}  // namespace

void BootConversation::Begin(std::string_view script, std::string_view nonce, TimePoint& deadline) {
  const TimePoint begin = SystemClock().Now();
  const TimePoint end =
      deadline - begin < kPatient ? deadline : std::max(deadline, begin + start_up_limit_);
  try {
    channel_->Write(script, deadline);
  } catch (const LostConnection&) {
    // A login shell like nologin has ended already. What it printed says more than the broken pipe.
    if (channel_->Read(buffer_, deadline) != ByteChannel::ReadResult::kData) throw;
  }
  const std::string marker = fmt::format("{}\n", nonce);
  while (true) {
    const size_t found = buffer_.find(marker);
    if (found != std::string::npos) {
      AppendToTail(noise_, std::string_view(buffer_).substr(0, found));
      buffer_.erase(0, found + marker.size());
      deadline += std::min(SystemClock().Now() - begin, TimePoint::max() - deadline);
      mark_ = fmt::format("{} ", nonce);
      return;
    }
    ThrowIfUnread(nonce);
    // Its last bytes may be the marker's first.
    if (buffer_.size() > marker.size() && buffer_.find(nonce) == std::string::npos) {
      const size_t surely_noise = buffer_.size() - marker.size();
      AppendToTail(noise_, std::string_view(buffer_).substr(0, surely_noise));
      buffer_.erase(0, surely_noise);
      noise_bytes_ += surely_noise;
    }
    WaitForMarker(begin, end, deadline);
  }
}

void BootConversation::WaitForMarker(TimePoint begin, TimePoint end, TimePoint deadline) {
  using ReadResult = ByteChannel::ReadResult;
  const TimePoint turn_end = SystemClock().Now() + kTurn;
  const ReadResult result = channel_->Read(buffer_, std::min(end, turn_end));
  const TimePoint now = SystemClock().Now();
  if (result == ReadResult::kEndOfFile) {
    ThrowIfTakenAway(result, std::min(end, now + kFindsOut));
    FailBeforeMarker(result, begin);
  }
  if (now >= begin + kNamedAfter && !std::exchange(named_, true)) {
    channel_->Note("logged in; waits for the start-up files of the account (.bashrc and the like)");
  }
  if (now >= begin + std::min<std::chrono::nanoseconds>(kAskedAfter, (end - begin) / 2)) {
    ThrowIfTakenAway(result, now);
  }
  if (PrintsWithoutEnd() ? grace_.IsOver(deadline) : now >= end) {
    FailBeforeMarker(ReadResult::kTimeout, begin);
  }
}

void BootConversation::ThrowIfTakenAway(ByteChannel::ReadResult result, TimePoint deadline) {
  if (!silent_) silent_.emplace(*channel_, SystemClock().Now() + kFindsOut);
  const auto found = silent_->FindOut(deadline);
  if (found == SilentShell::Finding::kNoOutput) {
    throw Error(Phase::kExec,
                "a start-up file of the account sends what /bin/sh prints elsewhere (exec >FILE)",
                std::string(kEndEarly));
  }
  const std::string said = Shown("it printed", noise_ + buffer_);
  // What a forced command has said before it ended tells more.
  const bool is_told = result == ByteChannel::ReadResult::kEndOfFile && !said.empty();
  if (found == SilentShell::Finding::kInputTaken && !is_told) {
    throw Error(
        Phase::kExec,
        "a start-up file of the account reads what is sent to /bin/sh, or ends the shell" + said,
        fmt::format("let its programs read from /dev/null, or {}", kEndEarly));
  }
}

bool BootConversation::PrintsWithoutEnd() const {
  return noise_bytes_ > kMuchNoise || channel_->Stderr().size() >= kMuchOnStderr;
}

// The script has not run: see BootScript.
void BootConversation::ThrowIfUnread(std::string_view nonce) const {
  const std::string mark = fmt::format("{} unread ", nonce);
  const size_t begin = buffer_.find(mark);
  const size_t end = begin == std::string::npos ? begin : buffer_.find('\n', begin);
  if (end == std::string::npos) return;
  std::string_view answer = std::string_view(buffer_).substr(begin, end - begin);
  answer.remove_prefix(mark.size());
  if (answer.starts_with("$")) {
    // What we have sent, not what it prints. A terminal takes no long lines.
    throw Error(Phase::kExec,
                "a terminal stands between the connection and /bin/sh, and shows what is sent",
                "let this account's commands run without one: look for script(1) and the like in "
                "ForceCommand of its sshd_config, in command= of its authorized_keys, and in its "
                "login shell and start-up files (.bashrc)");
  }
  if (TakeUpTo(' ', answer) == "2") {
    throw Error(Phase::kExec,
                "a start-up file of the account has read a part of what was sent to /bin/sh",
                fmt::format("let its programs read from /dev/null, or {}", kEndEarly));
  }
  throw Error(Phase::kExec,
              fmt::format("a start-up file of the account runs {} instead of /bin/sh",
                          answer.empty() ? "another shell" : OnOneLine(answer)),
              std::string(kEndEarly));
}

// A login shell like nologin says on stdout why it does not let us in.
void BootConversation::FailBeforeMarker(ByteChannel::ReadResult result, TimePoint begin) const {
  const std::string said =
      Shown("it printed", noise_ + buffer_) + Shown("stderr", channel_->Stderr());
  const std::string_view limit = LimitRemedy(said);
  const std::string remedy(
      limit.empty()
          ? "ssh to the host by hand and look at the account's shell and start-up files "
            "(~/.bashrc, ~/.zshenv, "
            "~/.cshrc), and for a forced command (ForceCommand in its sshd_config); or it "
            "may start no process (ulimit -u, pids.max)"
          : limit);
  if (result == ByteChannel::ReadResult::kTimeout) {
    const auto spent = std::chrono::round<std::chrono::seconds>(SystemClock().Now() - begin);
    throw LostConnection(
        Phase::kExec,
        fmt::format("the login shell and its start-up files did not run /bin/sh within {} s{}",
                    spent.count(), said),
        remedy);
  }
  throw Error(Phase::kExec,
              "the login shell ended without running /bin/sh" +
                  (said.empty() ? "; it said nothing: it may start no process" : said),
              remedy);
}

std::string BootConversation::ReadLine(TimePoint deadline) {
  while (true) {
    if (grace_.IsOver(deadline)) {
      throw LostConnection(Phase::kStart, "the host's shell did not come to an end in time");
    }
    const size_t end = buffer_.find('\n');
    if (end != std::string::npos) {
      taken_bytes_ += end + 1;
      if (taken_bytes_ > kMaxLinesBytes) {
        throw ProtocolError(Phase::kStart, "the host sends more than tfdist's script can say");
      }
      std::string line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      const size_t begin = line.find(mark_);
      if (begin == std::string::npos) continue;
      return line.substr(begin + mark_.size());
    }
    if (buffer_.size() > kMaxLineBytes) {
      throw ProtocolError(Phase::kStart, "the host sends garbage");
    }
    const auto result = channel_->Read(buffer_, deadline);
    if (result == ByteChannel::ReadResult::kTimeout) {
      throw LostConnection(Phase::kStart,
                           "the host's shell fell silent" + Shown("stderr", channel_->Stderr()));
    }
    if (result == ByteChannel::ReadResult::kEndOfFile) {
      const std::string said = channel_->Stderr();
      throw LostConnection(Phase::kStart, "the host's shell ended" + Shown("stderr", said),
                           std::string(LimitRemedy(said)));
    }
  }
}

std::unique_ptr<ByteChannel> BootConversation::Release() {
  silent_.reset();
  return std::make_unique<ResumedChannel>(std::move(channel_), std::exchange(buffer_, {}));
}

}  // namespace tfdist::cli
