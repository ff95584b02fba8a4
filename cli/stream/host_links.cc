#include "cli/stream/host_links.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/failures.h"

namespace tfdist::cli {
namespace {

constexpr std::chrono::seconds kSoon{2};

// What comes before the login is the same for each slot.
bool IsOfTheMachine(const Error& error) {
  return error.phase() == Phase::kResolve || error.phase() == Phase::kConnect ||
         error.phase() == Phase::kHostKey || error.phase() == Phase::kAuth;
}

}  // namespace

Attached HostLinks::Ask(int slot, TimePoint& deadline, std::function<bool()> is_off) {
  Attached attached = AttachToLook(record_, slot, deadline, std::move(is_off), &together_);
  together_.NoteAnswer();
  return attached;
}

bool HostLinks::AreOneMachine(int slot, int other) const {
  return IsSamePlace(record_.hosts.at(static_cast<size_t>(slot)), record_.ssh,
                     record_.hosts.at(static_cast<size_t>(other)), record_.ssh);
}

std::exception_ptr HostLinks::WhyOff(int slot) const {
  const auto found = std::ranges::find_if(off_, [&](const auto& one) {
    const auto& [other, off] = one;
    return other == slot || (off.is_of_machine && AreOneMachine(slot, other));
  });
  return found == off_.end() ? nullptr : found->second.why;
}

// Another slot of the machine is being asked: whether the machine answers is known then.
bool HostLinks::IsAwaited(int slot) const {
  return std::ranges::any_of(
      begun_, [&](const auto& one) { return one.first != slot && AreOneMachine(slot, one.first); });
}

Attached HostLinks::TakeBegun(int slot) {
  auto begun = begun_.extract(slot);
  return begun.mapped().get();
}

Attached HostLinks::Attach(int slot, TimePoint& deadline, std::function<bool()> is_off) {
  if (const std::exception_ptr off = WhyOff(slot)) std::rethrow_exception(off);
  try {
    return begun_.contains(slot) ? TakeBegun(slot) : Ask(slot, deadline, std::move(is_off));
  } catch (const Unreachable& error) {
    off_[slot] = {std::current_exception(), IsOfTheMachine(error)};
    throw;
  } catch (const LostConnection& error) {
    off_[slot] = {std::current_exception(), IsOfTheMachine(error)};
    throw;
  }
}

Attached& HostLinks::To(int slot, TimePoint& deadline) {
  if (slot_ != slot) {
    Drop();
    attached_ = Attach(slot, deadline);
    slot_ = slot;
  }
  return attached_;
}

bool HostLinks::AnswersSoon(int slot, TimePoint deadline) {
  if (slot_ == slot || WhyOff(slot)) return true;
  if (IsAwaited(slot)) return false;
  auto begun = begun_.find(slot);
  const auto limit = begun == begun_.end() ? kSoon : std::chrono::seconds::zero();
  if (begun == begun_.end()) {
    // Where no thread may be had, the host is asked once its turn comes.
    const auto ask = [this, slot, deadline]() mutable { return Ask(slot, deadline, {}); };
    begun = begun_.emplace(slot, std::async(std::launch::async | std::launch::deferred, ask)).first;
  }
  return begun->second.wait_for(limit) != std::future_status::timeout;
}

}  // namespace tfdist::cli
