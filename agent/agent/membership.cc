#include "agent/agent/membership.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "agent/control/curve_keys.h"
#include "agent/slot/run_folders.h"
#include "agent/slot/slot_census.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "wire/file_fetch.h"

namespace tfdist::agent {
namespace {

constexpr std::chrono::seconds kCensusLimit{5};

std::function<protocol::Census()> CensusOf(const OwnSlot& slot) {
  // The keeper is this process's parent; both carry the cookie themselves.
  return [folder = slot.folder, info = slot.info] {
    return EndSlotProcesses(folder, info, {getpid(), getppid()},
                            SystemClock().Now() + kCensusLimit);
  };
}

std::string WhyKeeperWasLost(const OwnSlot& slot, const Handover& handover) {
  if (!handover.keeper_lost) return "";
  if (HostWasRestarted(slot.folder)) return "it was restarted, which ended its tasks";
  if (handover.notes_lost)
    return "all processes of tfdist there were killed at once, and its tasks with them";
  return "its keeper was killed, which ended its tasks";
}

// Keys that nobody has: a coordinator whose list is damaged goes on, and its members are lost.
std::vector<std::string> KeysOfNobody(size_t count) {
  std::vector<std::string> keys;
  while (keys.size() < count) keys.push_back(MakeCurveKeys().public_key);
  return keys;
}

}  // namespace

Membership::Membership(Parts parts, Handlers handlers)
    : parts_(parts),
      handlers_(std::move(handlers)),
      told_committed_(std::filesystem::exists(parts.slot.folder.committed())),
      coordinator_(MakeCoordinator()),
      log_server_([this](auto... args) { return parts_.logs.Open(std::move(args)...); },
                  BulkSink()),
      member_(parts.loop, parts.files, parts.tasks, CensusOf(parts.slot),
              {.committed = told_committed_,
               .keeper_lost = WhyKeeperWasLost(parts.slot, parts.keeper.handover()),
               .orphan_timeout = std::chrono::milliseconds(parts.slot.info.orphan_timeout_ms)},
              MemberHandlers()),
      dialer_(parts.loop, [this](const CoordinatorAddress& coordinator) { Connect(coordinator); }) {
}

std::unique_ptr<Coordinator> Membership::MakeCoordinator() {
  const OwnSlot& slot = parts_.slot;
  if (!slot.leads()) return nullptr;
  return std::make_unique<Coordinator>(
      parts_.loop, parts_.files, context_, slot.folder, slot.info, slot.keys,
      parts_.keeper.listener_fd(), [this] { handlers_.on_news(); },
      [this](int from, const auto& ask) { handlers_.on_file_ask(from, ask); });
}

void Membership::Resume() {
  const Told& told = parts_.slot.told;
  if (coordinator_) {
    const size_t slots = coordinator_->log().state().plan.slots.size();
    if (!told.peers.empty()) {
      coordinator_->Open(told.peers);
    } else if (slots > 0) {
      coordinator_->Open(KeysOfNobody(slots));
    }
    // The agent before may have been killed between the end of the job and its own.
    parts_.loop.Post([this] { handlers_.on_news(); });
    member_.SetUplink(coordinator_->MakeLocalUplink(UplinkHandlers()));
  } else if (told.coordinator) {
    Connect(*told.coordinator);
  }
}

void Membership::Release(std::function<void()> done) {
  coordinator_ ? coordinator_->Release(std::move(done)) : done();
}

bool Membership::committed() const {
  return coordinator_ ? coordinator_->committed() : told_committed_;
}

bool Membership::over() const { return coordinator_ ? coordinator_->over() : member_.over(); }

bool Membership::EndIsWritten() const {
  if (!coordinator_ || !coordinator_->over()) return false;
  const EventLog& log = coordinator_->log();
  return log.written() >= log.number();
}

void Membership::Look(const protocol::LookRequest& request,
                      std::function<void(protocol::HostLook)> done) {
  if (!looking_) looking_.emplace(parts_.loop);
  looking_->Post([tasks = parts_.tasks.ToSee(), request] { return LookAtTasks(tasks, request); },
                 [slot = parts_.slot.info.slot,
                  done = std::move(done)](Outcome<std::vector<protocol::TaskLook>>& looks) {
                   done(protocol::Bounded({slot, std::move(looks.Get())}, slot));
                 });
}

void Membership::AskFirstHost(const protocol::Message& message) {
  // What waits for a connection is asked again anyway.
  if (member_.uplink() != nullptr && member_.uplink()->BulkWritable()) {
    member_.uplink()->SendBulk(message);
  }
}

void Membership::Answer(int slot, const protocol::Message& message) {
  if (coordinator_) coordinator_->SendBulk(slot, message);
}

// --- what the parts need of each other ---

void Membership::OnBulk(const protocol::Message& message) {
  if (message.type == protocol::type::kFilePart) return handlers_.on_file_part(message);
  if (message.type != protocol::type::kLook) return log_server_.OnMessage(message);
  Look(protocol::Body<protocol::LookRequest>(message), [this, id = message.id](const auto& look) {
    member_.uplink()->SendBulk({std::string(protocol::type::kLooked), id, look});
  });
}

LogStream::Sink Membership::BulkSink() {
  return {
      .ready = [this] { return member_.uplink()->BulkWritable(); },
      .send =
          [this](protocol::Message message) { member_.uplink()->SendBulk(std::move(message)); }};
}

Member::Handlers Membership::MemberHandlers() {
  return {.on_first_contact = [this] { dialer_.OnContact(); },
          .on_committed = [this] { OnCommitted(); },
          .on_release = [this] { handlers_.on_release(); },
          .on_orphaned = [this](const std::string& why) { KeepOrphaned(why); }};
}

Uplink::Handlers Membership::UplinkHandlers() {
  return {.on_beat = [this](const Beat& beat) { member_.OnBeat(beat); },
          .on_order = [this](const Order& order) { member_.OnOrder(order); },
          .on_release = [this] { member_.OnRelease(); },
          .on_bulk = [this](const protocol::Message& m) { OnBulk(m); },
          .on_bulk_writable = [this] { log_server_.Pump(); }};
}

void Membership::Connect(const CoordinatorAddress& coordinator) {
  member_.SetUplink(std::make_unique<ZmqUplink>(parts_.loop, context_, parts_.slot.keys,
                                                coordinator, UplinkHandlers()));
}

void Membership::KeepOrphaned(const std::string& why) {
  const std::string text =
      fmt::format("{}: its tasks were ended at {}", why, UtcText(WallClockNanoseconds()));
  parts_.files.Post([path = parts_.slot.folder.orphaned(), text] { ReplaceFile(path, text, 0600); },
                    [](Outcome<void>& outcome) {
                      try {
                        outcome.Get();
                      } catch (const Error& e) {
                        Log("{}, ignoring", e.cause());
                      }
                    });
}

void Membership::OnCommitted() {
  if (std::exchange(told_committed_, true) || coordinator_) return;
  parts_.files.Post([path = parts_.slot.folder.committed()] { ReplaceFile(path, "", 0600); },
                    [](Outcome<void>& outcome) { outcome.Get(); });
}

}  // namespace tfdist::agent
