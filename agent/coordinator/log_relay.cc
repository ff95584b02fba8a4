#include "agent/coordinator/log_relay.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/hash.h"

namespace tfdist::agent {
namespace {

using protocol::Json;
using protocol::Message;
using protocol::ReadLog;

namespace type = protocol::type;

// Where a LogPiece lies in its log: all that the relay needs of it, without a copy of the text.
struct Extent {
  uint64_t offset = 0;
  uint64_t size_bytes = 0;
};

void from_json(const Json& json, Extent& extent) {
  json.at("offset").get_to(extent.offset);
  const Json& data = json.at("data");
  extent.size_bytes =
      data.is_binary() ? data.get_binary().size() : data.get_ref<const std::string&>().size();
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
  Entry& entry = found->second;
  if (message.type == type::kError) return Deliver(entry, std::move(message));
  if (IsNext(entry, message)) {
    entry.asked = false;
    if (message.type == type::kLog) Advance(entry, message);
    return Deliver(entry, std::move(message));
  }
  // A piece before this one went on a broken connection. Those that follow are on their way
  // already.
  if (!entry.asked) Ask(found->first, entry);
}

bool LogRelay::IsNext(const Entry& entry, const Message& message) {
  const Json from = message.body.value("from", Json());
  return entry.request.tail_lines ? from.is_null() : from == Json(entry.request.offset);
}

void LogRelay::Advance(Entry& entry, const Message& piece) {
  const auto extent = protocol::Body<Extent>(piece);
  ReadLog& request = entry.request;
  request.tail_lines.reset();
  request.offset = extent.offset + extent.size_bytes;
  request.credit -= std::min(request.credit, extent.size_bytes);
}

void LogRelay::Deliver(Entry& entry, Message message) {
  if (message.type != type::kLog) entry.ended = true;
  message.id = entry.id;
  entry.sink(std::move(message));
}

void LogRelay::OnConnected(int slot) {
  for (auto& [number, entry] : entries_) {
    if (entry.slot == slot && !entry.ended) Ask(number, entry);
  }
}

void LogRelay::OnLost(int slot, const std::string& why) {
  for (auto& [number, entry] : entries_) {
    if (entry.slot != slot || entry.ended) continue;
    entry.ended = true;
    entry.sink(
        {std::string(type::kEnd), entry.id, {{"offset", entry.request.offset}, {"why", why}}});
  }
}

}  // namespace tfdist::agent
