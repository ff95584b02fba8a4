#include "agent/log_service/log_server.h"

namespace tfdist::agent {

namespace type = protocol::type;

void LogServer::OnMessage(const protocol::Message& message) {
  if (message.type == type::kReadLog) return Open(message);
  if (message.type == type::kCancel) {
    streams_.erase(message.id);
    return;
  }
  const auto stream = streams_.find(message.id);
  if (message.type == type::kCredit && stream != streams_.end()) {
    stream->second->Credit(message.body.value("bytes", uint64_t{0}));
  }
}

void LogServer::Open(const protocol::Message& message) {
  try {
    auto& stream = streams_[message.id];
    stream.reset();
    stream = make_(message.id, protocol::Body<protocol::ReadLog>(message), sink_);
    stream->Pump();
  } catch (const Error& e) {
    streams_.erase(message.id);
    sink_.send(protocol::ErrorMessage(message.id, e));
  }
}

void LogServer::Pump() {
  for (const auto& [id, stream] : streams_) stream->Pump();
  std::erase_if(streams_, [](const auto& item) { return item.second->ended(); });
}

}  // namespace tfdist::agent
