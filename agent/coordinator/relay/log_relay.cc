#include "agent/coordinator/relay/log_relay.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/failures.h"
#include "base/hash.h"

namespace tfdist::agent {
namespace {

using protocol::Json;
using protocol::Message;
using protocol::ReadLog;

namespace type = protocol::type;

// Where a LogPiece begins: with the size of its payload, all that the relay needs of it.
struct Begin {
  uint64_t offset = 0;
};

bool IsSegment(const Json& json) {
  constexpr size_t kFields = 5;
  return json.is_array() && json.size() == kFields &&
         std::ranges::all_of(json, [](const Json& field) { return field.is_number(); });
}

void from_json(const Json& json, Begin& begin) { json.at("offset").get_to(begin.offset); }

// Only text costs credit. So a piece has text, and not much beside it: a segment for each byte at
// most.
bool IsPiece(const Message& message) {
  const size_t fields = 3 + message.body.count("left_out");  // from, offset, segments
  const Json& segments = message.body.at("segments");
  return !message.payload.empty() && message.body.size() == fields && segments.is_array() &&
         message.body.value("left_out", Json(true)).is_boolean() &&
         segments.size() <= message.payload.size() && std::ranges::all_of(segments, IsSegment);
}

bool IsOfAStream(const Message& message) {
  return message.type == type::kLog || message.type == type::kEnd || message.type == type::kError;
}

}  // namespace

class LogRelay::Relayed : public Stream {
 public:
  Relayed(LogRelay& relay, uint64_t number) : relay_(relay), number_(number) {}
  ~Relayed() override {
    const Entry& entry = relay_.entries_.at(number_);
    if (!entry.ended) relay_.send_(entry.slot, {std::string(type::kCancel), number_});
    relay_.entries_.erase(number_);
  }

  void Credit(uint64_t bytes) override {
    Entry& entry = relay_.entries_.at(number_);
    entry.request.credit += bytes;
    relay_.send_(entry.slot, {std::string(type::kCredit), number_, {{"bytes", bytes}}});
  }
  void Pump() override {}
  [[nodiscard]] bool ended() const override { return relay_.entries_.at(number_).ended; }

 private:
  LogRelay& relay_;
  uint64_t number_;
};

LogRelay::LogRelay(SendBulk send)
    : send_(std::move(send)), last_number_(std::stoull(RandomHex(7), nullptr, 16)) {}

std::unique_ptr<Stream> LogRelay::Open(int slot, uint64_t id, const ReadLog& request, Sink sink) {
  const uint64_t number = ++last_number_;
  Entry& entry = entries_.emplace(number, Entry{slot, id, request, std::move(sink)}).first->second;
  Ask(number, entry);
  return std::make_unique<Relayed>(*this, number);
}

void LogRelay::Ask(uint64_t number, Entry& entry) {
  entry.asked = true;
  send_(entry.slot, {std::string(type::kReadLog), number, entry.request});
}

void LogRelay::OnBulk(int slot, Message message) {
  const auto found = entries_.find(message.id);
  if (found == entries_.end() || found->second.slot != slot || found->second.ended) {
    send_(slot, {std::string(type::kCancel), message.id});
    return;
  }
  auto& [number, entry] = *found;
  try {
    Take(number, entry, std::move(message));
  } catch (const Error& e) {
    send_(slot, {std::string(type::kCancel), number});
    End(entry, e.cause());
  } catch (const Json::exception& e) {
    send_(slot, {std::string(type::kCancel), number});
    End(entry, std::string("its host sent a message that is malformed: ") + e.what());
  }
}

void LogRelay::Take(uint64_t number, Entry& entry, Message message) {
  if (!IsOfAStream(message)) {
    throw ProtocolError(Phase::kLogs, "its host sent a message that belongs to no log");
  }
  if (message.type == type::kError) return Deliver(entry, std::move(message));
  if (IsNext(entry, message)) {
    entry.asked = false;
    if (message.type == type::kLog) Advance(entry, message);
    return Deliver(entry, std::move(message));
  }
  // A piece before this one went on a broken connection. Those that follow are on their way
  // already.
  if (!entry.asked) Ask(number, entry);
}

bool LogRelay::IsNext(const Entry& entry, const Message& message) {
  const Json from = message.body.value("from", Json());
  return entry.request.begins_somewhere() ? from.is_null() : from == Json(entry.request.offset);
}

void LogRelay::Advance(Entry& entry, const Message& piece) {
  const auto begin = protocol::Body<Begin>(piece);
  const uint64_t size_bytes = piece.payload.size();
  if (!IsPiece(piece)) {
    throw ProtocolError(Phase::kLogs, "its host sent a piece of log that is malformed");
  }
  ReadLog& request = entry.request;
  if (size_bytes > request.credit) {
    throw ProtocolError(Phase::kLogs, "its host sent more text than was asked for");
  }
  request.tail_lines.reset();
  request.since_ns.reset();
  request.offset = begin.offset + size_bytes;
  request.credit -= size_bytes;
}

void LogRelay::Deliver(Entry& entry, Message message) {
  if (message.type != type::kLog) {
    entry.ended = true;
    message.payload.clear();
  }
  message.id = entry.id;
  entry.sink(std::move(message));
}

void LogRelay::End(Entry& entry, const std::string& why) {
  Deliver(entry, {std::string(type::kEnd), 0, {{"offset", entry.request.offset}, {"why", why}}});
}

void LogRelay::OnConnected(int slot) {
  for (auto& [number, entry] : entries_) {
    if (entry.slot == slot && !entry.ended) Ask(number, entry);
  }
}

void LogRelay::OnLost(int slot, const std::string& why) {
  for (auto& [number, entry] : entries_) {
    if (entry.slot == slot && !entry.ended) End(entry, why);
  }
}

}  // namespace tfdist::agent
