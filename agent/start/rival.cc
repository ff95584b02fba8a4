#include "agent/start/rival.h"

#include <filesystem>
#include <system_error>

#include "agent/coordinator/disk/journal.h"
#include "agent/session/local_agent.h"
#include "base/clock.h"
#include "wire/protocol.h"

namespace tfdist::agent {
namespace {

constexpr std::chrono::seconds kAnswerLimit{3};

}  // namespace

std::optional<Contact> AskContact(const SlotFolder& folder) {
  const auto answer = AskAgent(folder, kContactRequest, protocol::Json::object(),
                               SystemClock().Now() + kAnswerLimit);
  if (!answer) return std::nullopt;
  return protocol::Body<Contact>({.type = std::string(kContactRequest), .body = *answer});
}

bool IsCommitted(const SlotFolder& folder, const std::optional<Contact>& contact) {
  if (contact) return contact->committed;
  std::error_code error;
  return std::filesystem::exists(folder.committed(), error) ||
         !ReadJournal(folder.journal()).events.empty();
}

bool WaitsFor(std::string_view job, std::string_view other) { return job < other; }

}  // namespace tfdist::agent
