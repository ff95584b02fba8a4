// The job's events for one reader: those from a number on, then, if it follows, what comes.
#pragma once

#include <cstdint>
#include <memory>

#include "agent/coordinator/disk/event_log.h"
#include "agent/session/session.h"
#include "agent/session/stream.h"

namespace tfdist::agent {

class EventStream : public Stream {
 public:
  EventStream(const EventLog& log, const std::shared_ptr<Session>& session, uint64_t id,
              uint64_t from, bool follow);

  void Credit(uint64_t) override {}  // few and short, unlike logs
  void Pump() override;
  [[nodiscard]] bool ended() const override { return ended_; }

 private:
  void SendBatch();
  [[nodiscard]] bool NothingFollows() const;

  const EventLog& log_;
  Session& session_;  // it owns this
  uint64_t id_;
  uint64_t next_;
  bool follow_;
  bool ended_ = false;
};

}  // namespace tfdist::agent
