#include "agent/session/local_agent.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <string>
#include <utility>

#include "agent/session/unix_listener.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "wire/frame.h"

namespace tfdist::agent {
namespace {

constexpr uint64_t kId = 1;

// False: the deadline has come, or the agent has hung up.
bool ReadMore(int fd, protocol::FrameReader& reader, TimePoint deadline) {
  pollfd waiting{fd, POLLIN, 0};
  const int ready = poll(&waiting, 1, PollTimeout(SystemClock().Now(), deadline));
  if (ready < 0) return errno == EINTR;
  if (ready == 0) return false;
  std::array<char, 4096> buffer{};
  const ssize_t got = recv(fd, buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (got < 0) return errno == EINTR || errno == EAGAIN;
  reader.Feed({buffer.data(), static_cast<size_t>(got)});
  return got > 0;
}

std::optional<protocol::Json> ReadAnswer(int fd, TimePoint deadline) {
  protocol::FrameReader reader;
  do {
    while (auto message = reader.Next()) {
      if (message->id != kId) continue;  // its hello
      protocol::ThrowIfError(*message);
      return std::move(message->body);
    }
  } while (ReadMore(fd, reader, deadline));
  return std::nullopt;
}

}  // namespace

std::optional<protocol::Json> AskAgent(const SlotFolder& folder, std::string_view type,
                                       protocol::Json body, TimePoint deadline) {
  try {
    const auto agent = ConnectToAgent(folder.path());
    if (!agent) return std::nullopt;
    WriteAll(agent->get(), protocol::Frame({std::string(type), kId, std::move(body)}), "a socket");
    return ReadAnswer(agent->get(), deadline);
  } catch (const Error& e) {
    Log("agent of {}: {}", folder.path().string(), e.what());
    return std::nullopt;
  }
}

}  // namespace tfdist::agent
