// Speaks the agent's protocol without an agent: what a finished job's folder tells, and the end of
// what has survived its agent.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>

#include "agent/log/log_cursor.h"
#include "agent/process/handover.h"
#include "agent/slot/slot_folder.h"
#include "wire/protocol.h"

namespace tfdist::agent {

class FolderServer {
 public:
  // `host`: what this account's processes get, for an agent that is to start again.
  FolderServer(SlotFolder folder, SlotInfo info, const HostSettings& host);

  // Until stdin ends or is silent for `idle_limit`.
  void Run(std::chrono::milliseconds idle_limit);

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
  void StartAgain(const protocol::Message& message) const;
  [[nodiscard]] bool IsToGoOn() const;
  // A piece to each reader with credit.
  void SendLogs();
  // False: it has ended.
  static bool SendLog(uint64_t id, Reader& reader);

  SlotFolder folder_;
  SlotInfo info_;
  HostSettings host_;
  std::map<uint64_t, Reader> readers_;
};

}  // namespace tfdist::agent
