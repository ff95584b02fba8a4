#include "agent/census/kill.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

namespace tfdist::agent {
namespace {

// Each pass finds what was forked during the pass before. A fork bomb that survives all passes is
// caught in the next call.
constexpr int kStopPasses = 20;

std::vector<ProcessInfo> AliveDescendants(const std::vector<pid_t>& kept) {
  std::vector<ProcessInfo> found = Descendants(getpid(), ReadProcessTable(), kept);
  std::erase_if(found, [](const ProcessInfo& process) { return process.ended(); });
  // What one of them has started comes to us when it is killed.
  for (ProcessInfo& child : HiddenChildren()) {
    const bool is_kept = std::ranges::find(kept, child.id.pid) != kept.end();
    if (!is_kept) found.push_back(std::move(child));
  }
  return found;
}

void SignalWithGroup(const ProcessInfo& process, int signal) {
  const auto now = process.hidden() ? std::optional(process) : ReadProcess(process.id.pid);
  if (!now || now->id != process.id) return;
  if (now->group > 1 && now->group != getpgrp()) kill(-now->group, signal);
  kill(process.id.pid, signal);
}

std::vector<ProcessInfo> StopDescendants(const std::vector<pid_t>& kept) {
  std::vector<ProcessInfo> stopped;
  for (int pass = 0; pass < kStopPasses; ++pass) {
    std::vector<ProcessInfo> found = AliveDescendants(kept);
    bool any_new = false;
    for (const ProcessInfo& process : found) {
      if (Contains(stopped, process.id)) continue;
      SignalWithGroup(process, SIGSTOP);
      any_new = true;
    }
    stopped = std::move(found);
    if (!any_new) break;
  }
  return stopped;
}

}  // namespace

void SignalProcess(const ProcessId& id, int signal) {
  const auto process = ReadProcess(id.pid);
  if (process && process->id == id) kill(id.pid, signal);
}

std::vector<ProcessInfo> KillDescendants(const std::vector<pid_t>& kept) {
  std::vector<ProcessInfo> processes = StopDescendants(kept);
  for (const ProcessInfo& process : processes) SignalWithGroup(process, SIGKILL);
  return processes;
}

}  // namespace tfdist::agent
