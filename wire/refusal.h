// A peer's answer that it will not do, or could not do, what it was asked.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/failures.h"

namespace tfdist::protocol {

// What a refusal means to a program; phase, cause and remedy say it to a person.
enum class RefusalKind {
  kFailed,          // it was tried and failed, or is of a kind that a newer peer has
  kMalformed,       // the request is not what the protocol allows
  kUnknownRequest,  // this agent has no such request
  kWrongHost,       // another host has what was asked for: the coordinator, a task
  kWrongState,      // the job is not committed yet, is committed already, or is over
  kTooMany,         // a limit of this agent is reached
  kNameTaken,       // a job of this name runs already
  kPortTaken,       // a port of the plan cannot be had
  kEnded,           // the job was ended before it began
};
std::string_view RefusalKindName(RefusalKind kind);
// The kind of that name; kFailed when it is none.
RefusalKind RefusalKindFromName(std::string_view name);

// The peer got the request; to ask again brings the same. Agents throw it where the kind is more
// than kFailed, ThrowIfError (protocol.h) on the other side.
class Refusal : public Error {
 public:
  Refusal(RefusalKind kind, Phase phase, std::string cause, std::string remedy = {})
      : Error(phase, std::move(cause), std::move(remedy)), kind_(kind) {}
  [[nodiscard]] RefusalKind kind() const { return kind_; }

 private:
  RefusalKind kind_;
};

}  // namespace tfdist::protocol
