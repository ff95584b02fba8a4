// Reads one task's log for one reader: from an offset, as far as credit goes, on to the end of the
// job when it follows.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>

#include "agent/log/log_reader.h"
#include "agent/loop/event_loop.h"
#include "agent/loop/file_thread.h"
#include "agent/session/stream.h"
#include "wire/protocol.h"

namespace tfdist::agent {

class LogStream : public Stream {
 public:
  // Where the text comes from. Without its slot's folder a log is no empty one, but lost.
  struct Source {
    std::filesystem::path task_folder;
    std::function<bool()> closed;  // no holder writes to it
    std::function<bool()> over;    // nothing will be added
    std::filesystem::path slot_folder;
  };
  // Where it goes. `send` is called only after `ready` has said true; `end` and `error` at any
  // time.
  struct Sink {
    std::function<bool()> ready;
    std::function<void(protocol::Message)> send;
  };

  LogStream(EventLoop& loop, FileThread& files, uint64_t id, const protocol::ReadLog& request,
            Source source, Sink sink);
  ~LogStream() override;

  void Credit(uint64_t bytes) override;
  void Pump() override;
  [[nodiscard]] bool ended() const override;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;  // weakly held by a read that is under way
};

}  // namespace tfdist::agent
