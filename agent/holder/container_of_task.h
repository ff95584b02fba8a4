// The container that a holder's task runs in: its first process is a child of the engine, the task is the engine's client.
#pragma once

#include <optional>

#include "agent/container/engine.h"
#include "agent/process/run_records.h"

namespace tfdist::agent {

class ContainerOfTask {
 public:
  // nullopt: the task has none. Removes what an earlier run has left, which would go on beside this one. Throws Error(kRun)
  // where the engine does not do it.
  static std::optional<ContainerOfTask> Of(const RunSpec& spec);

  // What the engine knows of the container's end, beside the exit code that its client has handed on.
  void AddTo(protocol::TaskExit& exit) const;
  // Ends it, however its client has ended. Throws Error(kRun).
  void Remove() const;

 private:
  ContainerOfTask(protocol::EngineKind engine, std::string name)
      : engine_(engine), name_(std::move(name)) {}

  protocol::EngineKind engine_;
  std::string name_;
};

}  // namespace tfdist::agent
