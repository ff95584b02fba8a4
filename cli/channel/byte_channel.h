// Bytes to and from one program on one host: an SSH exec channel, or a child process on this
// machine.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"

namespace tfdist::cli {

// Belongs to one thread at a time. The destructor hangs up without waiting for the peer.
class ByteChannel {
 public:
  virtual ~ByteChannel() = default;

  // Waits until `deadline` for at least one byte, and appends all bytes that are there to `out`.
  enum class ReadResult { kData, kTimeout, kEndOfFile };
  // Throws LostConnection when the connection breaks.
  [[nodiscard]] virtual ReadResult Read(std::string& out, TimePoint deadline) = 0;
  // Writes all of `bytes`; throws LostConnection when the connection breaks or `deadline` passes.
  // What the peer sends meanwhile is kept for the next Read (both sides may be writing).
  virtual void Write(std::string_view bytes, TimePoint deadline) = 0;
  // A descriptor to poll(2) together with others: readable when Read may have data. Before polling
  // it, call Read with a deadline in the past until it returns kTimeout.
  [[nodiscard]] virtual int PollFd() const = 0;
  // The last 64 KiB that the program has written to its stderr so far.
  [[nodiscard]] virtual std::string Stderr() const = 0;

  // A second /bin/sh on the same host, over the same connection; nullptr where there is no such thing. Throws Error.
  virtual std::unique_ptr<ByteChannel> OpenAnother(TimePoint /*deadline*/) { return nullptr; }
  // The program reads the end of its stdin after what was written. Throws LostConnection.
  virtual void CloseInput(TimePoint /*deadline*/) {}
  // How the program has ended, once Read has told of the end of the file; nullopt where nothing says it by `deadline`.
  virtual std::optional<int> ExitStatus(TimePoint /*deadline*/) { return std::nullopt; }

  // Tells the user something of the host at the other end, where somebody has said how.
  void Note(const std::string& text) const {
    if (on_note_) on_note_(text);
  }
  void SetOnNote(std::function<void(const std::string&)> on_note) { on_note_ = std::move(on_note); }

 private:
  std::function<void(const std::string&)> on_note_;
};

// Opens channels to one host; connects once, on first use. Belongs to one thread at a time.
class Transport {
 public:
  virtual ~Transport() = default;
  // Starts `/bin/sh` on the host; the channel is its stdin and stdout. Throws Error with this host:
  // Unreachable when the connection failed before the login, LostConnection when it broke later.
  // `deadline` is the host's: it is moved by the time that is not the host's, in which other logins, ssh-agent or the user
  // are waited for. So it holds for what follows, in a later statement (C++ orders no arguments of one call).
  virtual std::unique_ptr<ByteChannel> OpenShell(TimePoint& deadline) = 0;
};

}  // namespace tfdist::cli
