#include "agent/coordinator/relay/look_relay.h"

#include <string>
#include <utility>

#include "base/hash.h"

namespace tfdist::agent {

using protocol::HostLook;
using protocol::Message;

namespace type = protocol::type;

class LookRelay::Looking : public Stream {
 public:
  Looking(LookRelay& relay, uint64_t number) : relay_(relay), number_(number) {}
  ~Looking() override { relay_.entries_.erase(number_); }

  void Credit(uint64_t) override {}  // one message of each host
  void Pump() override {}
  [[nodiscard]] bool ended() const override { return relay_.entries_.at(number_).awaited.empty(); }

 private:
  LookRelay& relay_;
  uint64_t number_;
};

LookRelay::LookRelay(SendBulk send)
    : send_(std::move(send)), last_number_(std::stoull(RandomHex(7), nullptr, 16)) {}

std::unique_ptr<Stream> LookRelay::Open(size_t slots, uint64_t id,
                                        const protocol::LookRequest& request,
                                        const LookHere& look_here, Sink sink) {
  const uint64_t number = ++last_number_;
  Entry& entry = entries_.emplace(number, Entry{id, std::move(sink), {0}}).first->second;
  for (size_t slot = 1; slot < slots; ++slot) {
    const int other = static_cast<int>(slot);
    if (send_(other, {std::string(type::kLook), number, request})) entry.awaited.insert(other);
  }
  look_here(number);
  return std::make_unique<Looking>(*this, number);
}

void LookRelay::OnLooked(uint64_t number, HostLook look) {
  look.slot = 0;
  Deliver(number, look);
}

void LookRelay::OnBulk(int slot, const Message& message) {
  const auto entry = entries_.find(message.id);
  if (entry == entries_.end() || !entry->second.awaited.contains(slot)) return;
  Deliver(message.id, protocol::Bounded(protocol::Body<HostLook>(message), slot));
}

void LookRelay::Deliver(uint64_t number, const HostLook& look) {
  const auto found = entries_.find(number);
  if (found == entries_.end() || found->second.awaited.erase(look.slot) == 0) return;
  Entry& entry = found->second;
  entry.sink({std::string(type::kLooked), entry.id, look});
  if (entry.awaited.empty()) {
    entry.sink({std::string(type::kEnd), entry.id, {{"offset", uint64_t{0}}}});
  }
}

}  // namespace tfdist::agent
