#include "agent/holder/container_of_task.h"

#include <fmt/format.h>
#include <signal.h>

#include <chrono>

#include "agent/container/containers.h"

namespace tfdist::agent {
namespace {

constexpr std::chrono::seconds kAnswerLimit{10};
constexpr std::chrono::seconds kContainerRemovalLimit{30};
// From here on an exit code may be the client's own: it could not start the container, or not execute the command.
constexpr int kFirstOfClient = 125;
constexpr int kLastOfClient = 127;

TimePoint Soon(std::chrono::seconds limit) { return SystemClock().Now() + limit; }

}  // namespace

std::optional<ContainerOfTask> ContainerOfTask::Of(const RunSpec& spec) {
  if (spec.container.empty()) return std::nullopt;
  ContainerOfTask container(KindOf(spec.engine), spec.container);
  container.Remove();
  return container;
}

void ContainerOfTask::AddTo(protocol::TaskExit& exit) const {
  const bool was_killed = exit.code == 128 + SIGKILL;
  const bool may_be_clients = exit.code >= kFirstOfClient && exit.code <= kLastOfClient;
  if (!was_killed && !may_be_clients) return;
  const auto end = LookAtEnd(engine_, name_, Soon(kAnswerLimit));
  if (!end) return;
  exit.out_of_memory = exit.out_of_memory || (was_killed && end->out_of_memory);
  if (end->started) return;
  exit.error = fmt::format("{} could not start its container (exit code {}); why is in its log",
                           ProgramOf(engine_), exit.code);
}

void ContainerOfTask::Remove() const {
  RemoveContainer(engine_, name_, Soon(kContainerRemovalLimit));
}

}  // namespace tfdist::agent
