#include "agent/session/session_table.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/failpoint.h"

namespace tfdist::agent {

SessionTable::SessionTable(EventLoop& loop, const std::filesystem::path& folder,
                           protocol::Hello hello, Session::MessageHandler on_message)
    : loop_(loop),
      hello_(std::move(hello)),
      on_message_(std::move(on_message)),
      listener_(loop, folder, [this](UniqueFd fd) { Add(std::move(fd)); }) {}

void SessionTable::Add(UniqueFd fd) {
  auto session = std::make_shared<Session>(loop_, std::move(fd), on_message_);
  sessions_.insert(session);
  session->Open([this, weak = session->weak_from_this()] { sessions_.erase(weak.lock()); });
  FailPoint("hello");
  session->Send({std::string(protocol::type::kHello), 0, hello_});
}

void SessionTable::PumpStreams() {
  // A session may close meanwhile.
  const std::vector<std::shared_ptr<Session>> sessions(sessions_.begin(), sessions_.end());
  for (const auto& session : sessions) session->PumpStreams();
}

void SessionTable::SendToAllBut(const std::shared_ptr<Session>& one,
                                const protocol::Message& message) {
  const std::vector<std::shared_ptr<Session>> sessions(sessions_.begin(), sessions_.end());
  for (const auto& session : sessions) {
    if (session != one) session->Send(message);
  }
}

bool SessionTable::HasReaders() const {
  return std::any_of(sessions_.begin(), sessions_.end(),
                     [](const auto& session) { return session->HasOpenStreams(); });
}

}  // namespace tfdist::agent
