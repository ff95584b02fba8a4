#include "agent/check/serve_check.h"

#include <unistd.h>

#include <chrono>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "agent/check/handshake.h"
#include "agent/check/held_ports.h"
#include "agent/check/host_facts.h"
#include "agent/check/plan_ports.h"
#include "agent/check/reach.h"
#include "agent/stdio/stdio_messages.h"
#include "base/clock.h"
#include "base/descriptor_limit.h"
#include "base/error.h"
#include "base/failures.h"
#include "wire/host_check.h"

namespace tfdist::agent {
namespace {

namespace fs = std::filesystem;
using protocol::Json;
using protocol::Message;
using std::chrono::milliseconds;

// The CLI pings.
constexpr std::chrono::seconds kIdleLimit{30};
constexpr milliseconds kLongestLimit{20'000};

TimePoint In(int64_t limit_ms) {
  return SystemClock().Now() + std::min(milliseconds(limit_ms), kLongestLimit);
}

// The agent that was brought for the check alone, with the folders that held nothing else. Whoever
// has used it since needs it.
class BroughtAgent {
 public:
  BroughtAgent(fs::path executable, fs::path base)
      : executable_(std::move(executable)), base_(std::move(base)), used_(LastUse()) {}
  BroughtAgent(const BroughtAgent&) = delete;
  BroughtAgent& operator=(const BroughtAgent&) = delete;
  ~BroughtAgent() {
    if (used_ && LastUse() == used_) Remove();
  }
  void NoteUse() { used_ = LastUse(); }

 private:
  [[nodiscard]] std::optional<fs::file_time_type> LastUse() const {
    std::error_code error;
    const auto time = fs::last_write_time(executable_, error);
    return error ? std::nullopt : std::optional(time);
  }
  // rmdir(2) takes empty folders alone.
  void Remove() const {
    unlink(executable_.c_str());
    rmdir(executable_.parent_path().c_str());
    rmdir(base_.c_str());
    if (base_.parent_path().filename() == ".cache") rmdir(base_.parent_path().c_str());
  }

  fs::path executable_;
  fs::path base_;
  std::optional<fs::file_time_type> used_;
};

KnownNames Known(const protocol::ResolvedNames& resolved) {
  KnownNames known;
  for (const protocol::ResolvedName& name : resolved.names) known[name.name] = name.addresses;
  return known;
}

class Check {
 public:
  Check(protocol::Survey survey, fs::path executable, fs::path base, NameLook why_taken)
      : survey_(std::move(survey)),
        executable_(std::move(executable)),
        base_(std::move(base)),
        why_taken_(std::move(why_taken)),
        handshake_(survey_.key.value),
        held_(handshake_, survey_.slot) {
    if (survey_.brought) brought_.emplace(executable_, base_);
  }

  Json Facts() {
    const auto facts = FindFacts(survey_, base_, why_taken_, In(survey_.limit_ms));
    names_ = Known(facts.names);
    ports_ = facts.ports;
    return facts;
  }

  Json Answer(const Message& request) {
    if (request.type == protocol::type::kPing) return {{"time_ns", WallClockNanoseconds()}};
    if (request.type == protocol::type::kHold) return Hold();
    if (request.type == protocol::type::kReach) return Dial(request);
    throw protocol::Refusal(protocol::RefusalKind::kUnknownRequest, Phase::kControl,
                            "a check does not know '" + request.type + "'");
  }

 private:
  Json Hold() {
    HoldPorts(survey_, handshake_, held_, ports_);
    return protocol::Held{ports_};
  }

  Json Dial(const Message& request) {
    const auto reach = protocol::Body<protocol::Reach>(request);
    // All slots have started: a later use of the agent is somebody else's.
    if (reach.brought && !brought_) brought_.emplace(executable_, base_);
    if (brought_) brought_->NoteUse();
    return protocol::Reached{FindUnreached(handshake_, reach.targets, names_, In(reach.limit_ms))};
  }

  protocol::Survey survey_;
  fs::path executable_;
  fs::path base_;
  NameLook why_taken_;
  std::optional<BroughtAgent> brought_;
  Handshake handshake_;
  std::vector<protocol::PortFact> ports_;
  HeldPorts held_;
  KnownNames names_;
};

template <typename Answer>
void Reply(const Message& request, Answer answer) {
  try {
    WriteToStdout({std::string(protocol::type::kOk), request.id, answer()});
  } catch (const Error& error) {
    WriteToStdout(protocol::ErrorMessage(request.id, error));
  }
}

}  // namespace

int ServeCheck(const Message& survey, const fs::path& executable, const fs::path& base,
               const NameLook& why_taken) {
  RaiseDescriptorLimit();
  auto check = std::make_unique<Check>(protocol::Body<protocol::Survey>(survey), executable, base,
                                       why_taken);
  Reply(survey, [&] { return check->Facts(); });
  while (const auto request = ReadMessage(STDIN_FILENO, SystemClock().Now() + kIdleLimit)) {
    if (request->type == protocol::type::kAbort) {
      check.reset();
      Reply(*request, [] { return Json::object(); });
      return 0;
    }
    Reply(*request, [&] { return check->Answer(*request); });
  }
  return 0;
}

}  // namespace tfdist::agent
