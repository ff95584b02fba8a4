// Has the file thread write this process's log: agent.log may lie on a disk that hangs.
#pragma once

#include <utility>

#include "agent/loop/file_thread.h"
#include "base/log.h"

namespace tfdist::agent {

class LogSink {
 public:
  explicit LogSink(FileThread& files) {
    SetLogSink([&files](std::string line) {
      files.Post([line = std::move(line)] { WriteLogLine(line); }, [](Outcome<void>&) {});
    });
  }
  LogSink(const LogSink&) = delete;
  LogSink& operator=(const LogSink&) = delete;
  ~LogSink() { Release(); }
  // Lines go straight to stderr again.
  static void Release() { SetLogSink({}); }
};

}  // namespace tfdist::agent
