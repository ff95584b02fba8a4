// Speaks the agent's protocol without an agent, or in place of one that does not answer: what the job's folder tells, and
// the end of what has survived its agent.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "agent/log/log_cursor.h"
#include "agent/process/handover.h"
#include "agent/slot/slot_folder.h"
#include "base/unique_fd.h"
#include "wire/protocol.h"

namespace tfdist::agent {

class FolderServer {
 public:
  // `host`: what this account's processes get, for an agent that is to start again.
  // `silent`: FoundAgent's.
  FolderServer(SlotFolder folder, SlotInfo info, const HostSettings& host,
               std::optional<std::string> silent);

  // Called before a sweep ends what runs of the slot.
  void SetBeforeSweep(std::function<void(bool force)> act) { before_sweep_ = std::move(act); }

  // Until stdin ends or is silent for `idle_limit`; or until the agent goes on, which is the other end from then on.
  std::optional<UniqueFd> Run(std::chrono::milliseconds idle_limit);

 private:
  struct Reader {
    LogCursor cursor;
    uint64_t credit;
  };

  void SendHello() const;
  void Handle(const protocol::Message& message);
  void Dispatch(const protocol::Message& message);
  void SendEvents(const protocol::Message& message) const;
  void OpenLog(const protocol::Message& message);
  void Sweep(const protocol::Message& message) const;
  void Abort(const protocol::Message& message) const;
  void Resume();
  void StartAgain(const protocol::Message& message) const;
  [[nodiscard]] bool IsToGoOn() const;
  // A piece to each reader with credit.
  void SendLogs();
  // False: it has ended.
  static bool SendLog(uint64_t id, Reader& reader);

  SlotFolder folder_;
  SlotInfo info_;
  HostSettings host_;
  std::optional<std::string> silent_;
  std::function<void(bool force)> before_sweep_;
  std::optional<UniqueFd> agent_;  // it has gone on
  std::map<uint64_t, Reader> readers_;
};

}  // namespace tfdist::agent
