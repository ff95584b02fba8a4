// The conversation with a boot script: skips what the login shell prints, reads the script's lines,
// then hands the channel over.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/channel/byte_channel.h"
#include "cli/link/grace.h"
#include "cli/link/silent_shell.h"

namespace tfdist::cli {

class BootConversation {
 public:
  // `start_up_limit`: of the account's start-up files, which ssh(1) would wait for without one.
  explicit BootConversation(std::unique_ptr<ByteChannel> channel,
                            std::chrono::milliseconds start_up_limit = std::chrono::minutes(5))
      : channel_(std::move(channel)), start_up_limit_(start_up_limit) {}

  // Sends `script` and waits for the line that is `nonce`. Where there are 25 s or more, the account's start-up files have their own
  // limit, and the time that they take moves `deadline`; of a host that prints without end `deadline` is the limit. Throws Error(kExec) that shows
  // what came instead, or that the script has come in part or to a shell that it is not for, or that its output comes to nobody;
  // LostConnection when it did not come in time.
  void Begin(std::string_view script, std::string_view nonce, TimePoint& deadline);
  // The script's next line, without the nonce and its newline; what others print meanwhile is passed over. Throws LostConnection when
  // the script ends or falls silent, ProtocolError when a line is longer than 64 KiB or all lines than 16 MiB.
  std::string ReadLine(TimePoint deadline);
  // Throws as ByteChannel::Write.
  void Send(std::string_view bytes, TimePoint deadline) { channel_->Write(bytes, deadline); }

  [[nodiscard]] const std::string& noise() const { return noise_; }
  // Bytes that were read after the last line come first. Call nothing else after this.
  std::unique_ptr<ByteChannel> Release();

 private:
  void ThrowIfUnread(std::string_view nonce) const;
  // Throws where the marker comes no more.
  void WaitForMarker(TimePoint begin, TimePoint end, TimePoint deadline);
  [[nodiscard]] bool PrintsWithoutEnd() const;
  // Asks in a second session why the shell is silent or has ended, and waits until `deadline`. Throws where that tells.
  void ThrowIfTakenAway(ByteChannel::ReadResult result, TimePoint deadline);
  [[noreturn]] void FailBeforeMarker(ByteChannel::ReadResult result, TimePoint begin) const;

  std::unique_ptr<ByteChannel> channel_;
  std::chrono::milliseconds start_up_limit_;
  std::string mark_;    // how the script's lines begin
  std::string buffer_;  // read, not yet taken
  size_t taken_bytes_ = 0;
  size_t noise_bytes_ = 0;  // all of them
  Grace grace_;
  bool named_ = false;  // that start-up files are waited for
  std::optional<SilentShell> silent_;
  std::string noise_;
};

}  // namespace tfdist::cli
