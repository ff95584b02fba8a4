#include "agent/start/other_jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "agent/census/census.h"
#include "agent/cleanup/retention.h"
#include "agent/session/local_agent.h"
#include "agent/slot/slot_census.h"
#include "agent/start/rival.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "job/layout.h"
#include "wire/contact.h"
#include "wire/protocol.h"

namespace tfdist::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A job that has just ended lets its agents go within this time, and a lost one hears that it is. A
// coordinator beats each second.
constexpr milliseconds kMoment{1500};
// For a silent agent to become lost, or to hear of its coordinator again.
constexpr milliseconds kDecisionLimit = kLostAfter + seconds(3);
// For the news of a commit: the command leaves a host once slot 0 has answered, and the host's agent hears of
// it from the coordinator, with its next report at the latest.
constexpr milliseconds kCommitNews{3000};
// The default grace of a task, a holder's last look, a census.
constexpr seconds kSweepLimit{20};
constexpr seconds kForceLimit{5};
constexpr seconds kLeaveLimit{5};
constexpr milliseconds kPauseBetweenLooks{50};

// Another job's slot on this host.
struct OtherSlot {
  std::string cookie;
  bool owned = false;
  SlotFolder folder;
  SlotInfo info;
};

TimePoint In(milliseconds span) { return SystemClock().Now() + span; }

bool IsOver(TimePoint deadline) { return SystemClock().Now() >= deadline; }

void Pause() { std::this_thread::sleep_for(kPauseBetweenLooks); }

// What a slot says of itself counts where its folder is called so.
bool IsOfItsFolder(const SlotInfo& info, std::string_view cookie) {
  return layout::SlotPath(info.job, info.slot) == cookie && layout::IsJobIdOf(info.job, info.name);
}

std::optional<OtherSlot> FindSlot(const FoundCookie& cookie, const SlotInfo& info) {
  // It says how the folder is called (CookieValue).
  const std::filesystem::path folder =
      std::filesystem::path(info.base) / layout::kJobs / cookie.value;
  if (!IsSlotFolder(folder)) return std::nullopt;
  OtherSlot other{cookie.value, cookie.owned, SlotFolder(folder), {}};
  try {
    other.info = ReadOrInferSlotInfo(other.folder);
  } catch (const Error& e) {
    Log("{}, ignoring", e.what());
    return std::nullopt;
  }
  if (other.info.name != info.name || other.info.job == info.job) return std::nullopt;
  if (!IsOfItsFolder(other.info, cookie.value)) return std::nullopt;
  return other;
}

bool Has(const std::vector<OtherSlot>& slots, const std::string& cookie) {
  return std::ranges::find(slots, cookie, &OtherSlot::cookie) != slots.end();
}

// A task that has changed its account has no cookie that is believed: its slot's notes name it.
void AddSlotsWithLostTasks(const SlotInfo& info, std::vector<OtherSlot>& slots) {
  const std::filesystem::path jobs = std::filesystem::path(info.base) / layout::kJobs;
  for (const std::filesystem::path& job : EntriesOf(jobs)) {
    if (!layout::IsJobIdOf(job.filename().string(), info.name)) continue;
    for (const std::filesystem::path& folder : EntriesOf(job)) {
      const std::string cookie = (job.filename() / folder.filename()).string();
      if (Has(slots, cookie)) continue;
      auto slot = FindSlot({.value = cookie, .owned = false}, info);
      if (slot && HasLostTasks(slot->folder)) slots.push_back(std::move(*slot));
    }
  }
}

std::vector<OtherSlot> FindSlots(const SlotInfo& info) {
  std::vector<OtherSlot> slots;
  for (const FoundCookie& cookie : FindCookies()) {
    if (auto slot = FindSlot(cookie, info)) slots.push_back(std::move(*slot));
  }
  AddSlotsWithLostTasks(info, slots);
  return slots;
}

bool IsThere(const OtherSlot& other) { return HasProcesses(other.folder); }

bool AskToEnd(const OtherSlot& other, bool committed) {
  const auto ask = [&](std::string_view type, bool force, milliseconds limit) {
    return AskAgent(other.folder, type, {{"force", force}}, In(limit)).has_value();
  };
  if (!committed && ask(protocol::type::kAbort, false, kForceLimit)) return true;
  return ask(protocol::type::kSweep, false, kSweepLimit) ||
         ask(protocol::type::kSweep, true, kForceLimit);
}

// Its own agent ends its tasks as at the end of their job, then itself. What is left, or does not
// answer, is killed.
void End(const OtherSlot& other, bool committed) {
  if (!AskToEnd(other, committed)) Log("job {}: its agent has not ended it", other.info.job);
  for (const TimePoint deadline = In(kLeaveLimit); IsThere(other) && !IsOver(deadline);) Pause();
  const auto census = EndFoundProcesses(other.folder, {}, In(kForceLimit));
  Log("job {} was over, or nobody had committed it: ended on this host", other.info.job);
  if (census.left.empty()) return;
  throw Error(Phase::kStart,
              fmt::format("of job {}, which is over, there is still: {}", other.info.job,
                          fmt::join(census.left, ", ")),
              fmt::format("tfdist down {}", other.info.job));
}

Error Refusal(const OtherSlot& other, std::string_view why) {
  return Error(
      Phase::kStart,
      fmt::format("a job named '{}' {} on this host: {}{}", other.info.name, why, other.info.job,
                  other.info.started_by.empty() ? "" : ", started by " + other.info.started_by),
      fmt::format("end it with `tfdist down {}`, or give this one another name", other.info.job));
}

bool IsSilent(const Contact& contact) { return milliseconds(contact.silence_ms) >= kLostAfter; }

// Before the commit: the CLI, which is heard each 5 s, does not decide about it any more.
class Desertion {
 public:
  // What the agent has just said; nullopt: nothing.
  void Note(const std::optional<Contact>& contact) {
    const bool is_alone = contact && !contact->committed && !contact->attended;
    alone_until_ = is_alone ? std::min(alone_until_, In(kCommitNews)) : TimePoint::max();
    is_silent_ = contact && !contact->committed && IsSilent(*contact);
  }
  [[nodiscard]] bool IsCertain() const { return is_silent_ || IsOver(alone_until_); }

 private:
  bool is_silent_ = false;
  TimePoint alone_until_ = TimePoint::max();  // without CLI and commit: from then on it has neither
};

std::string_view WhatItDoes(const std::optional<Contact>& contact) {
  if (!contact) return "has an agent that does not answer";
  if (contact->committed && IsSilent(*contact)) return "runs, and does not hear its first host,";
  return contact->committed ? "runs" : "is being started";
}

[[noreturn]] void Refuse(const OtherSlot& other, const std::optional<Contact>& contact) {
  throw protocol::NameTaken(Refusal(other, WhatItDoes(contact)), other.info.job,
                            other.info.plan_sha256, IsCommitted(other.folder, contact));
}

// Its command brings it up.
bool IsBeingStarted(const Contact& contact) {
  return !contact.over && !contact.committed && contact.attended && !IsSilent(contact);
}

void EndOrRefuse(const OtherSlot& other, const std::string& job, Waiting waiting) {
  const TimePoint begin = In(milliseconds(0));
  const TimePoint moment = In(kMoment);
  const TimePoint deadline = In(kDecisionLimit);
  const TimePoint deadline_of_rival = In(kRivalLimit);
  Desertion desertion;
  for (;; Pause()) {
    const auto contact = AskContact(other.folder);
    desertion.Note(contact);
    if (!contact && (!other.owned || !IsThere(other))) return End(other, true);
    if (contact && contact->over && contact->clear &&
        (other.info.slot != 0 || waiting == Waiting::kStays)) {
      return;
    }
    if (contact && (contact->over || desertion.IsCertain())) {
      return End(other, contact->committed);
    }
    // Its coordinator has been heard since this began: one that was killed just now has not. Or it has been silent for long:
    // its host may come back, and only its user's word ends the job.
    const bool runs =
        contact && contact->committed &&
        (milliseconds(contact->silence_ms) < SystemClock().Now() - begin || IsSilent(*contact));
    const bool is_rival = contact && IsBeingStarted(*contact);
    if (is_rival && !WaitsFor(job, other.info.job)) Refuse(other, contact);
    if ((runs && IsOver(moment)) || IsOver(is_rival ? deadline_of_rival : deadline)) {
      Refuse(other, contact);
    }
  }
}

// As far as one look tells: EndOrRefuse waits, and ends what is over. An agent that does not answer may just be on its way out.
bool GoesOn(const std::optional<Contact>& contact) {
  if (!contact) return false;
  return IsBeingStarted(*contact) || (!contact->over && contact->committed);
}

}  // namespace

void EndOtherJobs(const SlotInfo& info, Waiting waiting) {
  for (const OtherSlot& other : FindSlots(info)) EndOrRefuse(other, info.job, waiting);
}

std::optional<Error> WhyNameIsTaken(const std::filesystem::path& base, const std::string& name) {
  SlotInfo info;
  info.base = base.string();
  info.name = name;
  for (const OtherSlot& other : FindSlots(info)) {
    const auto contact = AskContact(other.folder);
    if (GoesOn(contact)) return Refusal(other, WhatItDoes(contact));
  }
  return std::nullopt;
}

}  // namespace tfdist::agent
