// Bytes to and from one program on one host: an SSH exec channel, or a child process on this
// machine.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace tfdist::cli {

// Belongs to one thread at a time. The destructor hangs up without waiting for the peer.
class ByteChannel {
 public:
  virtual ~ByteChannel() = default;

  // Appends to `out` what is there, waiting for at least one byte until `deadline`.
  enum class ReadResult { kData, kTimeout, kEndOfFile };
  // Throws LostConnection when the connection breaks.
  [[nodiscard]] virtual ReadResult Read(std::string& out, TimePoint deadline) = 0;
  // Writes all of `bytes`; throws LostConnection when the connection breaks or `deadline` passes.
  // What the peer sends meanwhile is kept for the next Read (both sides may be writing).
  virtual void Write(std::string_view bytes, TimePoint deadline) = 0;
  // A descriptor that polls readable when Read may have something, for waiting on several things.
  // Before it is polled, Read must have answered kTimeout with a deadline that had passed.
  [[nodiscard]] virtual int PollFd() const = 0;
  // What the program wrote to its stderr, the last 64 KiB, so far.
  [[nodiscard]] virtual std::string Stderr() const = 0;
};

// Opens channels to one host; connects once, on first use. Belongs to one thread at a time.
class Transport {
 public:
  virtual ~Transport() = default;
  // Starts `/bin/sh` on the host with a stream to its stdin and stdout. Throws Error with this
  // host: Unreachable when it did not let us so far as to log in, LostConnection when it broke off
  // later.
  virtual std::unique_ptr<ByteChannel> OpenShell(TimePoint deadline) = 0;
};

}  // namespace tfdist::cli
