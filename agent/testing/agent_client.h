// For tests: the CLI's side of the protocol, over the stdio of a real `tfdist-agent`.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <deque>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "wire/frame.h"
#include "wire/protocol.h"

namespace tfdist::agent {

// Generous: the machine may be busy with other builds.
inline constexpr std::chrono::seconds kLong{60};

class AgentClient {
 public:
  // Runs `<executable> <role>`.
  AgentClient(const std::filesystem::path& executable, const std::string& role);
  AgentClient(AgentClient&& other) noexcept;
  // Hangs up and reaps the process.
  ~AgentClient();

  // Sends, and does not wait. Returns the id. Does not notice that the agent has hung up: a later
  // wait for an answer does.
  uint64_t Send(std::string_view type, protocol::Json body = protocol::Json::object(),
                std::string payload = {});
  void SendWithId(uint64_t id, std::string_view type, protocol::Json body,
                  std::string payload = {});
  // Sends, and waits for the answer; an `error` is thrown.
  protocol::Json Request(std::string_view type, protocol::Json body = protocol::Json::object(),
                         std::string payload = {});
  // The next message that `wanted` accepts; others are kept for later. Throws Error when the agent
  // hangs up or `kLong` has passed. Pings meanwhile, as agents hang up on a silent CLI.
  protocol::Message Wait(const std::function<bool(const protocol::Message&)>& wanted,
                         const std::string& what);
  protocol::Hello WaitForHello();
  protocol::Hello WaitForHello(protocol::Serving serving);
  // Events up to the first of that kind, from the stream `id`; the next call goes on behind it.
  std::vector<protocol::Event> WaitForEvent(
      uint64_t id, std::string_view kind, const protocol::Json& fields = protocol::Json::object());
  // Asks for a task's log from `offset`; the id of its stream. An agent whose job is over waits for
  // the streams that are open, not for one that might follow them.
  uint64_t OpenLog(const std::string& task, bool follow, uint64_t offset = 0);
  // What OpenLog() asked for, until its stream ends.
  std::string ReadToEnd(uint64_t log, uint64_t offset = 0);
  // Both.
  std::string ReadLog(const std::string& task, bool follow, uint64_t offset = 0);
  // Hangs up on the agent, which may yet be sent something.
  void StopReading() { from_agent_.Reset(); }
  // Nothing more comes from the agent.
  bool WaitForEnd();

 private:
  std::optional<protocol::Message> Receive(std::chrono::steady_clock::time_point deadline);
  void PingAfterSilence();

  pid_t pid_ = 0;
  UniqueFd to_agent_;
  UniqueFd from_agent_;
  protocol::FrameReader reader_;
  std::deque<protocol::Message> kept_;
  uint64_t last_id_ = 0;
  std::chrono::steady_clock::time_point last_sent_;
  bool hung_up_ = false;
};

// Waits until `condition` holds; at the deadline the test fails, naming `what`.
bool WaitUntil(const std::function<bool()>& condition, const std::string& what,
               std::chrono::milliseconds limit = kLong);

}  // namespace tfdist::agent
