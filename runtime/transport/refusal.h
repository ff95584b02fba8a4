// A request that a server does not grant: thrown on the server, carried in its reply, thrown again
// by the trainer's client.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "base/error.h"

namespace tfdist::runtime {

// Why. Programs decide by the kind; the text is for the user. Numbers as on the wire (MESSAGES.md).
enum class RefusalKind : uint8_t {
  kInvalid = 1,        // malformed, or about something that does not exist
  kNotPermitted = 2,   // not this task's to ask
  kAttemptOver = 3,    // the sender belongs to an older attempt of the job
  kReplaced = 4,       // another process has taken the sender's place
  kVariablesLost = 5,  // the server was restarted and has no variables of before
  kMismatch = 6,       // the variables or tables here are different ones
  kNotFinite = 7,      // NaN or infinity, or too large for the number format of the answer
  kNoRoom = 8,         // memory, or a limit on what is under way
  kNotSaved = 9,       // a checkpoint could not be written
  kNotRestored = 10,   // a checkpoint lacks something, or is damaged
};
inline constexpr RefusalKind kLastRefusalKind = RefusalKind::kNotRestored;

class Refusal : public Error {
 public:
  Refusal(RefusalKind kind, std::string cause, std::string remedy = {})
      : Error(Phase::kRun, std::move(cause), std::move(remedy)), kind_(kind) {}
  [[nodiscard]] RefusalKind kind() const { return kind_; }

 private:
  RefusalKind kind_;
};

// Remedies of several places.
inline constexpr const char* kSameJob =
    "give every task of the job the same TF_CONFIG cluster and secret";
inline constexpr const char* kSameModel = "give every task the same model and options";
inline constexpr const char* kRestartJob =
    "restart all tasks of the job, the servers too: the model is lost";

}  // namespace tfdist::runtime
