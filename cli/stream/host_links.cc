#include "cli/stream/host_links.h"

#include <utility>

#include "base/failures.h"

namespace tfdist::cli {

Attached HostLinks::Attach(int slot, TimePoint& deadline, std::function<bool()> is_off) {
  const auto off = off_.find(slot);
  if (off != off_.end()) std::rethrow_exception(off->second);
  try {
    return AttachToLook(record_, slot, deadline, std::move(is_off));
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

}  // namespace tfdist::cli
