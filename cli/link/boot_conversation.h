// The talk with a boot script: skips what comes before it, takes its lines, then hands the channel
// on.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "cli/link/byte_channel.h"
#include "cli/link/grace.h"

namespace tfdist::cli {

class BootConversation {
 public:
  explicit BootConversation(std::unique_ptr<ByteChannel> channel) : channel_(std::move(channel)) {}

  // Sends `script` and waits for the line that is `nonce`. Throws Error(kExec) that shows what came
  // instead, LostConnection when it did not come in time. Deadlines hold while bytes keep coming,
  // too (see Grace).
  void Begin(std::string_view script, std::string_view nonce, TimePoint deadline);
  // The script's next line, without its end. Throws LostConnection when it ends or falls silent,
  // ProtocolError when the lines come to more than our scripts have to say.
  std::string ReadLine(TimePoint deadline);
  // Throws as ByteChannel::Write.
  void Send(std::string_view bytes, TimePoint deadline) { channel_->Write(bytes, deadline); }

  [[nodiscard]] const std::string& noise() const { return noise_; }
  // What was read past the last line comes first in it. Nothing else may be called after this.
  std::unique_ptr<ByteChannel> Release();

 private:
  [[noreturn]] void FailBeforeMarker(ByteChannel::ReadResult result) const;

  std::unique_ptr<ByteChannel> channel_;
  std::string buffer_;  // read, not yet taken
  size_t taken_bytes_ = 0;
  Grace grace_;
  std::string noise_;
};

}  // namespace tfdist::cli
