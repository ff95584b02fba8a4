#include "job/state.h"

namespace tfdist::protocol {

std::string_view JobPhaseName(JobPhase phase) {
  switch (phase) {
    case JobPhase::kNone:
      return "unknown";
    case JobPhase::kCommitted:
      return "starting";
    case JobPhase::kRunning:
      return "running";
    case JobPhase::kRestarting:
      return "restarting";
    case JobPhase::kStopping:
      return "stopping";
    case JobPhase::kEnded:
      return "ended";
  }
  return "unknown";
}

}  // namespace tfdist::protocol
