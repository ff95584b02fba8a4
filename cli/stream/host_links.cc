#include "cli/stream/host_links.h"

#include <chrono>
#include <utility>

#include "base/failures.h"

namespace tfdist::cli {
namespace {

constexpr std::chrono::seconds kSoon{2};

}  // namespace

Attached HostLinks::Ask(int slot, TimePoint& deadline, std::function<bool()> is_off) {
  Attached attached = AttachToLook(record_, slot, deadline, std::move(is_off), &together_);
  together_.NoteAnswer();
  return attached;
}

Attached HostLinks::TakeBegun(int slot) {
  auto begun = begun_.extract(slot);
  return begun.mapped().get();
}

Attached HostLinks::Attach(int slot, TimePoint& deadline, std::function<bool()> is_off) {
  const auto off = off_.find(slot);
  if (off != off_.end()) std::rethrow_exception(off->second);
  try {
    return begun_.contains(slot) ? TakeBegun(slot) : Ask(slot, deadline, std::move(is_off));
  } catch (const Unreachable&) {
    off_[slot] = std::current_exception();
    throw;
  } catch (const LostConnection&) {
    off_[slot] = std::current_exception();
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
  if (slot_ == slot || IsOff(slot)) return true;
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
