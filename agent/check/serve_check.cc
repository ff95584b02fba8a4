#include "agent/check/serve_check.h"

#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <memory>
#include <optional>
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
#include "job/layout.h"
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

// No use has this time: a check that had brought the agent has left it to another one, which still ran.
constexpr std::chrono::seconds kLeftToAnother{1};

// The agent, with the folders that held nothing else: where only checks have used it since one of them brought it, the last of
// them removes it.
class BroughtAgent {
 public:
  // `in_use`: the agent's file, locked as start_main has it.
  BroughtAgent(fs::path executable, fs::path base, int in_use, bool is_brought)
      : executable_(std::move(executable)), base_(std::move(base)), in_use_(in_use) {
    if (is_brought) NoteUse();
  }
  BroughtAgent(const BroughtAgent&) = delete;
  BroughtAgent& operator=(const BroughtAgent&) = delete;
  ~BroughtAgent() {
    if (!IsOurs()) return;
    Leave();  // while the lock is still shared: of two that end at once the second one sees it
    if (!IsUsedByOthers() && IsOurs()) Remove();
  }
  // Whoever uses it later needs it.
  void NoteUse() { used_ = LastUse(); }
  [[nodiscard]] bool is_brought() const { return used_.has_value(); }

 private:
  [[nodiscard]] std::optional<int64_t> LastUse() const {
    struct stat file {};
    struct stat named {};
    const bool is_there = fstat(in_use_, &file) == 0 && stat(executable_.c_str(), &named) == 0 &&
                          file.st_ino == named.st_ino;
    if (!is_there) return std::nullopt;
    return int64_t{file.st_mtim.tv_sec} * 1'000'000'000 + file.st_mtim.tv_nsec;
  }
  [[nodiscard]] bool IsOurs() const {
    const auto last = LastUse();
    return last && (last == used_ || *last == std::chrono::nanoseconds(kLeftToAnother).count());
  }
  // Gives up the lock that this process has. A file system without locks: nobody is seen.
  [[nodiscard]] bool IsUsedByOthers() const {
    return flock(in_use_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  }
  [[nodiscard]] bool HasIdOnly() const {
    std::error_code error;
    const fs::directory_iterator entries(base_, error);
    return !error && std::ranges::all_of(entries, [](const fs::directory_entry& entry) {
      return entry.path().filename() == layout::kBaseId;
    });
  }
  void Leave() const {
    const timespec left{.tv_sec = kLeftToAnother.count(), .tv_nsec = 0};
    const std::array<timespec, 2> both = {left, left};
    (void)futimens(in_use_, both.data());
  }
  // rmdir(2) takes empty folders only.
  void Remove() const {
    unlink(executable_.c_str());
    // A job's record may know the id where something else is there.
    if (rmdir(executable_.parent_path().c_str()) == 0 && HasIdOnly())
      unlink((base_ / layout::kBaseId).c_str());
    rmdir(base_.c_str());
    if (base_.parent_path().filename() == ".cache") rmdir(base_.parent_path().c_str());
  }

  fs::path executable_;
  fs::path base_;
  int in_use_;
  std::optional<int64_t> used_;  // none: this check has not brought it
};

KnownNames Known(const protocol::ResolvedNames& resolved) {
  KnownNames known;
  for (const protocol::ResolvedName& name : resolved.names) known[name.name] = name.addresses;
  return known;
}

class Check {
 public:
  Check(protocol::Survey survey, const fs::path& executable, int in_use, fs::path base,
        NameLook why_taken)
      : survey_(std::move(survey)),
        base_(std::move(base)),
        why_taken_(std::move(why_taken)),
        agent_(executable, base_, in_use, survey_.brought),
        handshake_(survey_.key.value),
        held_(handshake_, survey_.slot),
        late_(handshake_, survey_.slot) {}

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
    HoldPorts(survey_, handshake_, held_, late_, ports_);
    return protocol::Held{ports_};
  }

  Json Dial(const Message& request) {
    const auto reach = protocol::Body<protocol::Reach>(request);
    // All slots have started: a later use of the agent is somebody else's.
    if (reach.brought || agent_.is_brought()) agent_.NoteUse();
    return protocol::Reached{FindUnreached(handshake_, reach.targets, names_, In(reach.limit_ms))};
  }

  protocol::Survey survey_;
  fs::path base_;
  NameLook why_taken_;
  BroughtAgent agent_;  // goes after the ports
  Handshake handshake_;
  std::vector<protocol::PortFact> ports_;
  HeldPorts held_;
  HeldPorts late_;  // another check had them when this one began
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

int ServeCheck(const Message& survey, const fs::path& executable, int in_use, const fs::path& base,
               const NameLook& why_taken) {
  RaiseDescriptorLimit();
  auto check = std::make_unique<Check>(protocol::Body<protocol::Survey>(survey), executable, in_use,
                                       base, why_taken);
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
