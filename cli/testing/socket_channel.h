// A channel over a socket pair: the test holds the other end, as the host's agent.
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/failures.h"
#include "base/unique_fd.h"
#include "cli/channel/byte_channel.h"

namespace tfdist::cli {

class SocketChannel : public ByteChannel {
 public:
  explicit SocketChannel(UniqueFd fd) : fd_(std::move(fd)) {}

  ReadResult Read(std::string& out, TimePoint deadline) override {
    pollfd readable{fd_.get(), POLLIN, 0};
    if (poll(&readable, 1, PollTimeout(SystemClock().Now(), deadline)) == 0) {
      return ReadResult::kTimeout;
    }
    std::array<char, 1000> buffer;
    const ssize_t got = read(fd_.get(), buffer.data(), buffer.size());
    if (got <= 0) return ReadResult::kEndOfFile;
    out.append(buffer.data(), static_cast<size_t>(got));
    return ReadResult::kData;
  }
  void Write(std::string_view bytes, TimePoint /*deadline*/) override {
    if (send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) {
      throw LostConnection(Phase::kExec, "broken");
    }
  }
  [[nodiscard]] int PollFd() const override { return fd_.get(); }
  [[nodiscard]] std::string Stderr() const override { return "last words\n"; }

 private:
  UniqueFd fd_;
};

}  // namespace tfdist::cli
