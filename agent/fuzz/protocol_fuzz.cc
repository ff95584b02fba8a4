// Control messages, between CLI and agent and between agents: what is accepted is the same when it
// is written again, whichever body it is taken for, and no deeper than a message may be. Events are
// applied to the state of a job.
#include <algorithm>
#include <cassert>
#include <cstdint>
#include <optional>
#include <utility>

#include "agent/control/zmq_uplink.h"
#include "job/state.h"
#include "wire/contact.h"
#include "wire/control.h"
#include "wire/file_fetch.h"
#include "wire/host_check.h"
#include "wire/house.h"
#include "wire/protocol.h"
#include "wire/resolved_names.h"
#include "wire/room.h"
#include "wire/shared_folder.h"
#include "wire/task_look.h"

namespace tfdist::protocol {
namespace {

size_t DepthOf(const Json& json) {
  if (!json.is_structured()) return 0;
  size_t deepest = 0;
  for (const Json& value : json) deepest = std::max(deepest, DepthOf(value));
  return deepest + 1;
}

template <typename T>
std::optional<T> BodyAs(const Message& message) {
  try {
    return Body<T>(message);
  } catch (const Error&) {
    return std::nullopt;
  }
}

template <typename T>
void TryBody(const Message& message) {
  const auto body = BodyAs<T>(message);
  if (!body) return;
  if constexpr (HasPayload<T>) assert(MessageWith("", 0, *body).payload == message.payload);
  const Json json = *body;
  assert(Json(json.get<T>()) == json);
}

void TryEvent(const Message& message) {
  JobPlan plan;
  plan.slots = {{"a", "10.0.0.1", false}};
  plan.tasks.emplace_back().task = "worker:0";
  JobState state;
  state.Apply({1, 0, event::Committed{plan}});
  const auto event = BodyAs<Event>(message);
  if (!event) return;
  try {
    state.Apply(*event);
  } catch (const Error&) {
    return;
  }
  for (const auto& [name, task] : state.tasks) {
    if (task.exit) (void)Describe(*task.exit);
  }
}

void TryError(const Message& message) {
  try {
    ThrowIfError(message);
  } catch (const Error&) {
  }
}

// What is shown of a host's look is no longer than it may be, and of the slot that has sent it.
void TryLook(const Message& message) {
  constexpr int kSlot = 7;
  auto look = BodyAs<HostLook>(message);
  if (!look) return;
  look = Bounded(std::move(*look), kSlot);
  assert(look->slot == kSlot);
  for (const TaskLook& task : look->tasks) {
    assert(task.connections.size() <= kMostConnections);
    assert(task.gpus.size() <= kMostGpusUsed && task.stack.size() <= kMostStackBytes);
  }
}

void TryBodies(const Message& message) {
  TryBody<HostDescription>(message);
  TryBody<JobPlan>(message);
  TryBody<ErrorBody>(message);
  TryBody<Hello>(message);
  TryBody<Create>(message);
  TryBody<FilePiece>(message);
  TryBody<ReadLog>(message);
  TryBody<LogPiece>(message);
  TryBody<Census>(message);
  TryBody<Survey>(message);
  TryBody<ListSlots>(message);
  TryBody<SlotList>(message);
  TryBody<RemoveSlots>(message);
  TryBody<Removal>(message);
  TryBody<HostFacts>(message);
  TryBody<Held>(message);
  TryBody<Reach>(message);
  TryBody<Reached>(message);
  TryBody<Event>(message);
  TryBody<agent::Order>(message);
  TryBody<agent::HostReport>(message);
  TryBody<agent::Beat>(message);
  TryBody<FileAsk>(message);
  TryBody<FilePart>(message);
  TryBody<Fetched>(message);
  TryBody<LookRequest>(message);
  TryBody<HostLook>(message);
  TryBody<ResolvedNames>(message);
  TryBody<SharedFolder>(message);
  TryBody<agent::Contact>(message);
  TryBody<Room>(message);
  TryBody<agent::CoordinatorAddress>(message);
  TryLook(message);
  TryEvent(message);
  TryError(message);
}

void Run(std::string_view bytes) {
  Message message;
  try {
    message = Decode(bytes);
  } catch (const Error&) {
    return;
  }
  assert(DepthOf(message.body) < kDeepestMessage);  // the message itself is one level
  const std::string written = Encode(message);
  assert(Encode(Decode(written)) == written);
  TryBodies(message);
}

}  // namespace
}  // namespace tfdist::protocol

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tfdist::protocol::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
