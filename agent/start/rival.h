// Two jobs of one name that are being started at one moment. Each may have what the other one needs on another host: the one
// with the smaller id waits for that, and the other one goes at once.
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

#include "agent/slot/slot_folder.h"
#include "wire/contact.h"

namespace tfdist::agent {

// For the other one to go: its command hears of it, and rolls its hosts back. An earlier version first waits for 14 s.
inline constexpr std::chrono::seconds kRivalLimit{20};

// What the agent of another job's slot says; nullopt: it does not answer. Blocks for 3 s at most.
std::optional<Contact> AskContact(const SlotFolder& folder);

// By what the agent has said; of one that does not answer, and may be on another host with the same home, by its files.
bool IsCommitted(const SlotFolder& folder, const std::optional<Contact>& contact);

// Whether `job` waits for `other`, where neither is committed.
bool WaitsFor(std::string_view job, std::string_view other);

}  // namespace tfdist::agent
