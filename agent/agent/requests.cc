#include "agent/agent/requests.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "agent/control/host_names.h"
#include "agent/coordinator/relay/event_stream.h"
#include "agent/files/shared_mark.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/process_limits.h"
#include "wire/data.h"
#include "wire/refusal.h"
#include "wire/room.h"
#include "wire/set_up.h"

namespace tfdist::agent {
namespace {

using protocol::Json;
using protocol::Message;
using protocol::Refusal;
using protocol::RefusalKind;

namespace type = protocol::type;

// A resolver whose first server is dead asks the next one after 5 s (resolv.conf(5)).
constexpr std::chrono::seconds kResolveLimit{8};
constexpr size_t kMostNames = 64;
constexpr int kMostThreads = 100'000;
constexpr size_t kSmallStack = 64 << 10;

TimePoint In(std::chrono::milliseconds span) { return SystemClock().Now() + span; }

using SessionPtr = std::shared_ptr<Session>;

template <typename T>
T Field(const Message& message, const char* name) {
  try {
    return message.body.at(name).get<T>();
  } catch (const Json::exception& e) {
    throw ProtocolError(Phase::kControl,
                        fmt::format("malformed message '{}': {}", message.type, e.what()));
  }
}

LogStream::Sink SinkOf(const SessionPtr& session) {
  const std::weak_ptr<Session> weak = session;
  return {.ready =
              [weak] {
                const auto reader = weak.lock();
                return reader && reader->LogReady();
              },
          .send =
              [weak](Message message) {
                const auto reader = weak.lock();
                if (reader) reader->SendLog(std::move(message));
              }};
}

}  // namespace

void Requests::Handle(const SessionPtr& session, const Message& message) {
  Reply(session, message.id).Try([&] { Dispatch(session, message); });
}

void Requests::Dispatch(const SessionPtr& session, const Message& message) {
  const Reply reply(session, message.id);
  const std::string& type = message.type;
  if (type == type::kPing) return reply.Ok();
  if (type == type::kCredit) {
    return session->CreditStream(message.id, Field<uint64_t>(message, "bytes"));
  }
  if (type == type::kCancel) return session->CancelStream(message.id);
  if (type == type::kEvents) return Events(session, message);
  if (type == type::kReadLog) return ReadLog(session, message);
  if (type == type::kLook) return Look(session, message);
  if (type == type::kStop) return Stop(reply, message);
  if (type == type::kRestart) return Restart(reply, message);
  if (type == type::kSweep) return Sweep(session, message);
  if (type == type::kCommit) return Commit(reply, message);
  if (type == kContactRequest) return reply.Ok(actions_.contact());
  NeedUncommitted();
  if (type == type::kKept) return parts_.deployment.Kept(session, message);
  if (type == type::kNeed) return parts_.deployment.Need(session, message);
  if (type == type::kFile) return parts_.deployment.File(session, message);
  if (type == type::kFetch) return parts_.deployment.Fetch(session, message);
  if (type == type::kFetched) return parts_.deployment.Fetched(session, message);
  if (type == type::kDescribe) return parts_.deployment.Describe(session, message);
  if (type == type::kData) return parts_.deployment.Data(session, message);
  if (type == type::kSetUp) return parts_.deployment.SetUp(session, message);
  if (type == protocol::kRoomRequest) return Room(reply, message);
  if (type == type::kPull) return parts_.deployment.Pull(session, message);
  if (type == type::kPulled) return parts_.deployment.Pulled(session, message);
  if (type == type::kPorts) return parts_.deployment.Ports(session, message);
  if (type == type::kResolve) return Resolve(reply, message);
  if (type == type::kMarkShared) return MarkShared(reply, message);
  if (type == type::kFindMark) return FindShared(reply, message);
  if (type == type::kUnmarkShared) return UnmarkShared(reply, message);
  if (type == type::kPeers) return Peers(reply, message);
  if (type == type::kDial) return Dial(reply, message);
  if (type == type::kAbort) return Abort(reply);
  throw Refusal(RefusalKind::kUnknownRequest, Phase::kControl,
                fmt::format("this agent does not know the request '{}'", type));
}

// --- deployment ---

void Requests::Room(const Reply& reply, const Message& message) {
  const auto room = protocol::Body<protocol::Room>(message);
  if (room.threads < 0 || room.threads > kMostThreads || room.descriptors < 0) {
    throw ProtocolError(Phase::kStart, "malformed message 'room'");
  }
  parts_.files.Post(
      [room] {
        CheckRoomForDescriptors(static_cast<size_t>(room.descriptors), Phase::kStart);
        CheckRoomForThreads(room.threads, kSmallStack, Phase::kStart);
      },
      [reply](Outcome<void>& outcome) {
        reply.Try([&] {
          outcome.Get();
          reply.Ok();
        });
      });
}

void Requests::Peers(const Reply& reply, const Message& message) {
  const auto keys = Field<std::vector<std::string>>(message, "keys");
  Coordinator& coordinator = NeedCoordinator();
  coordinator.Open(keys);
  parts_.files.Post(
      [path = parts_.folder.peers(), text = Json(keys).dump()] { ReplaceFile(path, text, 0600); },
      [this, reply, &coordinator](Outcome<void>& outcome) {
        reply.Try([&] {
          outcome.Get();
          reply.Ok({{"port", parts_.info.port}, {"key", coordinator.public_key()}});
        });
      });
}

void Requests::Dial(const Reply& reply, const Message& message) {
  const auto coordinator = protocol::Body<CoordinatorAddress>(message);
  parts_.files.Post([host = coordinator.address] { return ResolveHost(host, In(kResolveLimit)); },
                    [this, reply, coordinator](Outcome<std::vector<std::string>>& addresses) {
                      reply.Try([&] {
                        parts_.dialer.Dial(coordinator, addresses.Get(),
                                           [this, reply](const std::optional<Error>& error) {
                                             error ? reply.Fail(*error) : KeepCoordinator(reply);
                                           });
                      });
                    });
}

void Requests::KeepCoordinator(const Reply& reply) {
  parts_.files.Post(
      [path = parts_.folder.coordinator(), text = Json(parts_.dialer.answered()).dump()] {
        ReplaceFile(path, text, 0600);
      },
      [reply](Outcome<void>& outcome) {
        reply.Try([&] {
          outcome.Get();
          reply.Ok();
        });
      });
}

void Requests::Resolve(const Reply& reply, const Message& message) {
  const auto names = Field<std::vector<std::string>>(message, "names");
  if (names.size() > kMostNames) throw Error(Phase::kControl, "too many names at once");
  parts_.files.Post([names] { return ResolveHosts(names, In(kResolveLimit)); },
                    [reply](Outcome<protocol::ResolvedNames>& answers) {
                      reply.Try([&] { reply.Ok(answers.Get()); });
                    });
}

void Requests::RemoveForgottenMark() {
  if (!mark_) return;
  parts_.files.Post([path = mark_->first, mark = mark_->second] { RemoveMark(path, mark); },
                    [](Outcome<void>&) {});
  mark_.reset();
}

void Requests::MarkShared(const Reply& reply, const Message& message) {
  RemoveForgottenMark();  // the CLI makes one
  mark_.emplace(Field<std::string>(message, "path"), Field<std::string>(message, "mark"));
  parts_.files.Post([path = Field<std::string>(message, "path"),
                     mark = Field<std::string>(message, "mark")] { return MakeMark(path, mark); },
                    [reply](Outcome<protocol::SharedFolder>& answer) {
                      reply.Try([&] { reply.Ok(answer.Get()); });
                    });
}

void Requests::FindShared(const Reply& reply, const Message& message) {
  parts_.files.Post([path = Field<std::string>(message, "path"),
                     mark = Field<std::string>(message, "mark")] { return FindMark(path, mark); },
                    [reply](Outcome<protocol::SharedFolder>& answer) {
                      reply.Try([&] { reply.Ok(answer.Get()); });
                    });
}

void Requests::UnmarkShared(const Reply& reply, const Message& message) {
  mark_.reset();
  parts_.files.Post([path = Field<std::string>(message, "path"),
                     mark = Field<std::string>(message, "mark")] { RemoveMark(path, mark); },
                    [reply](Outcome<void>& outcome) {
                      reply.Try([&] {
                        outcome.Get();
                        reply.Ok();
                      });
                    });
}

void Requests::Commit(const Reply& reply, const Message& message) {
  const auto plan = protocol::Body<protocol::JobPlan>(message);
  NeedCoordinator().Commit(plan, [reply](Outcome<void>& outcome) {
    reply.Try([&] {
      outcome.Get();
      reply.Ok();
    });
  });
}

void Requests::Abort(const Reply& reply) {
  RemoveForgottenMark();
  actions_.remove_folder([this, reply](const std::string& left) {
    reply.Ok({{"left", left}});
    actions_.leave();
  });
}

// --- streams ---

void Requests::Events(const SessionPtr& session, const Message& message) {
  const auto from = Field<uint64_t>(message, "from");
  if (parts_.coordinator == nullptr) {
    return session->Send({std::string(type::kEnd), message.id, {{"offset", from}}});
  }
  session->AddStream(message.id,
                     std::make_unique<EventStream>(parts_.coordinator->log(), session, message.id,
                                                   from, Field<bool>(message, "follow")));
}

void Requests::ReadLog(const SessionPtr& session, const Message& message) {
  const auto request = protocol::Body<protocol::ReadLog>(message);
  const LogStream::Sink sink = SinkOf(session);
  const auto slot =
      parts_.coordinator != nullptr ? parts_.coordinator->SlotOf(request.task) : std::nullopt;
  if (slot.value_or(0) == 0) {
    return session->AddStream(message.id, actions_.read_log(message.id, request, sink));
  }
  session->AddStream(message.id,
                     parts_.coordinator->relay().Open(*slot, message.id, request, sink.send));
}

void Requests::Look(const SessionPtr& session, const Message& message) {
  const auto request = protocol::Body<protocol::LookRequest>(message);
  Coordinator& coordinator = NeedCoordinator();
  const auto look_here = [&](uint64_t number) {
    actions_.look(request, [&coordinator, number](protocol::HostLook look) {
      coordinator.looks().OnLooked(number, std::move(look));
    });
  };
  const std::weak_ptr<Session> weak = session;
  session->AddStream(message.id, coordinator.looks().Open(coordinator.slots(), message.id, request,
                                                          look_here, [weak](const Message& answer) {
                                                            const auto reader = weak.lock();
                                                            if (reader) reader->Send(answer);
                                                          }));
}

// --- the end ---

void Requests::Stop(const Reply& reply, const Message& message) {
  Coordinator& coordinator = NeedCoordinator();
  coordinator.Stop(Field<std::string>(message, "why"), Field<bool>(message, "force"));
  coordinator.WhenWritten([reply] { reply.Ok(); });
}

void Requests::Restart(const Reply& reply, const Message& message) {
  Coordinator& coordinator = NeedCoordinator();
  Json runs = coordinator.Restart(Field<std::vector<std::string>>(message, "tasks"),
                                  Field<bool>(message, "all"));
  coordinator.WhenWritten([reply, runs = std::move(runs)] { reply.Ok({{"runs", runs}}); });
}

void Requests::Sweep(const SessionPtr& session, const Message& message) {
  const Reply reply(session, message.id);
  const Goal goal = message.body.value("force", false) ? Goal::kKill : Goal::kStop;
  if (parts_.coordinator != nullptr) parts_.coordinator->Abandon("its host was swept");
  SayThatItNeverBegins(session);
  parts_.member.Sweep(goal, [this, reply](const protocol::Census& census) {
    reply.Ok(census);
    // The coordinator leaves by itself, once the end of the job is in its journal.
    if (parts_.coordinator == nullptr || !parts_.coordinator->committing()) actions_.leave();
  });
}

void Requests::SayThatItNeverBegins(const SessionPtr& who_ends_it) const {
  const bool begins =
      parts_.coordinator != nullptr ? parts_.coordinator->committing() : actions_.committed();
  if (begins) return;
  const Refusal ended(RefusalKind::kEnded, Phase::kStart, "the job was ended before it began");
  actions_.say_to_others(who_ends_it, protocol::ErrorMessage(protocol::kNoRequest, ended));
}

Coordinator& Requests::NeedCoordinator() const {
  if (parts_.coordinator != nullptr) return *parts_.coordinator;
  throw Refusal(RefusalKind::kWrongHost, Phase::kControl, "the coordinator is on another host");
}

void Requests::NeedUncommitted() const {
  if (!actions_.committed()) return;
  throw Refusal(RefusalKind::kWrongState, Phase::kCommit, "the job is committed already");
}

}  // namespace tfdist::agent
