// What lies in tfdist's folders on this host, and its removal at the user's word (wire/house.h). What lies near it and is not
// tfdist's stays. Both block, for as long as a file system takes.
#pragma once

#include <chrono>

#include "agent/slot/this_machine.h"
#include "wire/house.h"

namespace tfdist::agent {

// For what tasks have written. `all` ends before who asked has waited for a minute.
struct LookLimits {
  std::chrono::seconds one_slot{10};
  std::chrono::seconds all{40};
};

protocol::SlotList ListSlots(const protocol::ListSlots& request, const LookLimits& limits = {},
                             const Machine& here = ThisMachine());

// Nothing of a slot that runs is removed, nor caches while anything runs from one of the folders.
protocol::Removal RemoveSlots(const protocol::RemoveSlots& request);

}  // namespace tfdist::agent
