// What lies in tfdist's folders on this host, and its removal at the user's word (wire/house.h). What lies near it and is not
// tfdist's stays. Both block, for as long as a file system takes.
#pragma once

#include "wire/house.h"

namespace tfdist::agent {

protocol::SlotList ListSlots(const protocol::ListSlots& request);

// Nothing of a slot that runs is removed, nor caches while anything runs from one of the folders.
protocol::Removal RemoveSlots(const protocol::RemoveSlots& request);

}  // namespace tfdist::agent
