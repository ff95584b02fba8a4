#include "agent/deploy/deployment.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "agent/check/port_claims.h"
#include "agent/check/quick_look.h"
#include "agent/container/image_load.h"
#include "agent/data/data_folder.h"
#include "agent/data/data_paths.h"
#include "agent/files/disk_room.h"
#include "agent/slot/description.h"
#include "agent/slot/kept_folder.h"
#include "agent/slot/task_files.h"
#include "agent/tasks/container_preflight.h"
#include "agent/tasks/preflight.h"
#include "agent/tasks/work_files.h"
#include "base/clock.h"
#include "base/failures.h"
#include "base/file.h"
#include "base/json_fields.h"
#include "base/log.h"
#include "base/unique_fd.h"
#include "job/layout.h"
#include "wire/data.h"
#include "wire/frame.h"

namespace tfdist::agent {
namespace {

using protocol::FileDescription;
using protocol::HostDescription;
using protocol::Json;
using protocol::Message;

using Troubles = std::vector<protocol::Trouble>;

// What there is to say of a host that is ready, but perhaps for a port.
struct Described {
  Prepared prepared;
  Troubles troubles;
  std::optional<protocol::KeptFiles> kept;  // where the tasks name {keep}
  protocol::KeptBy kept_by;
  bool set_up_runs = false;  // the tasks' commands are looked at once it has ended
  HostDescription description;
};

struct SetUpAnswer {
  protocol::SetUpProgress progress;
  HostDescription description;  // with what has been made, when it is done
  std::vector<protocol::ImageOnHost> images;
};

// For a program that says something about the host.
constexpr std::chrono::seconds kQuickLookLimit{2};
constexpr std::chrono::seconds kImagesLimit{60};  // for engines that are to say which they have
constexpr std::chrono::milliseconds kEarlierResultsLimit{500};
constexpr std::chrono::milliseconds kKeptFilesLimit{100};

// Pieces come without waiting for answers: the disk must be able to push back.
class HeldSession {
 public:
  explicit HeldSession(std::shared_ptr<Session> session) : session_(std::move(session)) {
    session_->Hold();
  }
  void Release() const { session_->Unhold(); }

 private:
  std::shared_ptr<Session> session_;
};

// Held while an agent puts its own tasks beside those of other jobs: of two that come at once one sees the other. Without it
// both may be refused: where a file system cannot, or whoever has it is frozen.
class OneAtATime {
 public:
  explicit OneAtATime(const std::filesystem::path& folder)
      : fd_(OpenFile(folder, O_RDONLY | O_DIRECTORY)) {
    const TimePoint give_up = SystemClock().Now() + kLimit;
    while (flock(fd_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK &&
           SystemClock().Now() < give_up) {
      std::this_thread::sleep_for(kPause);
    }
  }

 private:
  static constexpr std::chrono::seconds kLimit{2};
  static constexpr std::chrono::milliseconds kPause{5};

  UniqueFd fd_;  // closing it unlocks
};

// The secret lies in its own file alone, which goes with the job.
std::string BytesToKeep(HostDescription description) {
  description.secret = {};
  return protocol::Encode({std::string(protocol::type::kDescribe), 0, description});
}

bool IsHere(const protocol::DataAsk& ask, const std::string& key, const std::filesystem::path& base,
            const FileStore& store) {
  const TimePoint deadline = SystemClock().Now() + kImagesLimit;
  bool is_image = false;
  bool is_here = true;
  for (const auto& image : ask.images) {
    if (image.key != key) continue;
    is_image = true;
    store.KeepUsed(image.layers);
    is_here = HasImage(image, deadline) && is_here;
  }
  return is_image ? is_here : DataFolder(base, key).Use();
}

// From now on other jobs of this account see which ports the tasks will listen on.
void KeepDescription(const HostDescription& description, const SlotFolder& folder,
                     const SlotInfo& info) {
  const std::string bytes = BytesToKeep(description);
  if (!description.needs_ports) return ReplaceFile(folder.description(), bytes, 0600);
  const OneAtATime lock(std::filesystem::path(info.base) / layout::kJobs);
  ReplaceFile(folder.description(), bytes, 0600);
  const auto conflicts =
      FindPortConflicts(description.tasks, {info.job, description.replaces}, info.plan_sha256);
  if (conflicts.empty()) return;
  unlink(folder.description().c_str());
  const auto& [why, remedy] = conflicts.front().trouble;
  throw protocol::Refusal(protocol::RefusalKind::kPortTaken, Phase::kPorts, why, remedy);
}

std::vector<FileDescription> FilesIn(const Message& message) {
  try {
    return message.body.at("files").get<std::vector<FileDescription>>();
  } catch (const Json::exception& e) {
    throw ProtocolError(Phase::kFiles, std::string("malformed list of files: ") + e.what());
  }
}

// Each job has a fresh folder: who counts on what the last one has written hears that it is not there. Of the jobs before that one
// the user has heard at its start.
void AddEarlierResults(const SlotFolder& folder, const SlotInfo& info, Troubles& troubles) {
  const TimePoint deadline = SystemClock().Now() + kEarlierResultsLimit;
  const auto earlier = FindEarlierResults(folder, info.name, deadline);
  if (!earlier) return;
  troubles.push_back(
      {fmt::format("job {} {} left files of its tasks here; this job starts in a fresh folder",
                   earlier->job, earlier->certain ? "has" : "may have"),
       fmt::format(
           "tfdist pull {} brings them home; what tasks write into {{keep}}, the next job finds",
           earlier->job)});
}

}  // namespace

Deployment::Deployment(EventLoop& loop, FileThread& files, KeeperLink& keeper,
                       const SlotFolder& folder, const SlotInfo& info, Ways ways,
                       OnDescribed on_described)
    : files_(files),
      folder_(folder),
      info_(info),
      on_described_(std::move(on_described)),
      store_(std::make_shared<FileStore>(std::filesystem::path(info.base) / layout::kFiles)),
      unpack_(std::make_shared<DataUnpack>(info.base, info.job)),
      server_(files, store_,
              [answer = std::move(ways.answer)](int slot, protocol::FilePart part) {
                answer(slot, protocol::MessageWith(protocol::type::kFilePart, 0, std::move(part)));
              }),
      fetcher_(loop, files, store_,
               [ask = std::move(ways.ask)](const protocol::FileAsk& what) {
                 ask({std::string(protocol::type::kAskFile), 0, what});
               }),
      images_(files),
      set_up_(loop, files, keeper, folder) {}

void Deployment::Kept(const std::shared_ptr<Session>& session, const Message& message) {
  files_.Post(
      [base = std::filesystem::path(info_.base),
       claim = protocol::Body<protocol::KeptClaim>(message)] {
        return FindKept(base, claim, SystemClock().Now() + kKeptFilesLimit);
      },
      [reply = Reply(session, message.id)](Outcome<protocol::KeptFound>& outcome) {
        reply.Try([&] { reply.Ok(outcome.Get()); });
      });
}

void Deployment::Need(const std::shared_ptr<Session>& session, const Message& message) {
  const auto files = FilesIn(message);
  const auto data = message.body.value("data", std::vector<protocol::DataOffer>());
  files_.Post(
      [store = store_, base = std::filesystem::path(info_.base), files, data] {
        try {
          store->ForgetUnused();
        } catch (const Error& e) {
          Log("{}, ignoring", e.what());  // the disk is full, perhaps of other things
        }
        std::vector<std::string> missing;
        uint64_t needed_bytes = 0;
        const auto expect = [&](const FileDescription& file) {
          store->Announce(file);
          if (store->Has(file)) return;
          store->Expect(file);
          missing.push_back(file.sha256);
          needed_bytes += file.size_bytes;
        };
        for (const FileDescription& file : files) {
          if (PathInWork(file.link)) needed_bytes += file.size_bytes;  // the tasks' copy
          expect(file);
        }
        for (const auto& offer : data) {
          if (offer.is_image()) {
            std::ranges::for_each(offer.files, expect);
          } else {
            DataFolder(base, offer.key).Expect(*store, offer, missing, needed_bytes);
          }
        }
        CheckRoom(base, needed_bytes);
        return missing;
      },
      [reply = Reply(session, message.id)](Outcome<std::vector<std::string>>& outcome) {
        reply.Try([&] { reply.Ok({{"missing", outcome.Get()}}); });
      });
}

void Deployment::File(const std::shared_ptr<Session>& session, const Message& message) {
  const HeldSession held(session);
  files_.Post([store = store_,
               message] { return store->Accept(protocol::Body<protocol::FilePiece>(message)); },
              [held, reply = Reply(session, message.id)](Outcome<bool>& outcome) {
                reply.Try([&] {
                  if (outcome.Get()) reply.Ok();
                });
                held.Release();
              });
}

void Deployment::Fetch(const std::shared_ptr<Session>& session, const Message& message) {
  fetcher_.Begin(FilesIn(message));
  Reply(session, message.id).Ok();
}

void Deployment::Fetched(const std::shared_ptr<Session>& session, const Message& message) {
  Reply(session, message.id).Ok(fetcher_.state());
}

void Deployment::OnAsk(int slot, const Message& message) {
  server_.OnAsk(slot, protocol::Body<protocol::FileAsk>(message));
}

void Deployment::OnPart(const Message& message) {
  fetcher_.OnPart(protocol::Body<protocol::FilePart>(message));
}

void Deployment::Describe(const std::shared_ptr<Session>& session, const Message& message) {
  const auto description = protocol::Body<HostDescription>(message);
  CheckDescription(description);
  files_.Post(
      [store = store_, description = HostDescription(description), folder = folder_, info = info_,
       stop = ended_.get_token()]() mutable {
        ReplaceFile(folder.secret(), description.secret.value, 0600);
        Described described;
        FillData(description.tasks, description.data, info.base);
        described.set_up_runs = !FillIfMade(description, info);
        KeepDescription(description, folder, info);
        described.prepared = Prepare(description, *store, folder, info, stop);
        if (described.set_up_runs) PrepareSetUp(description, folder, info);
        described.troubles = QuickLook(info.base, SystemClock().Now() + kQuickLookLimit);
        if (std::ranges::any_of(description.tasks,
                                protocol::NamesKeptFolder<protocol::TaskDescription>)) {
          SlotInfo named = info;
          if (description.kept) {
            described.kept_by = ClaimKept(info, *description.kept);
            named.name = description.kept->name;  // not that of a rehearsal
          }
          described.kept = LookAtKept(KeptFolder(named), SystemClock().Now() + kKeptFilesLimit);
        } else {
          AddEarlierResults(folder, info, described.troubles);
        }
        described.description = std::move(description);
        return described;
      },
      [this, reply = Reply(session, message.id)](Outcome<Described>& outcome) {
        reply.Try([&] {
          const Described& described = outcome.Get();
          if (described.set_up_runs) {
            waiting_ = described.description;
            look_ = std::make_shared<SetUpLook>(folder_);
          } else {
            on_described_(described.description);
          }
          Json answer = {{"troubles", described.troubles},
                         {"waits", described.prepared.why_ports_wait},
                         {"set_up", described.set_up_runs}};
          if (!described.prepared.images.empty()) answer["images"] = described.prepared.images;
          Put(answer, "kept", described.kept);
          if (!described.kept_by.who.empty()) answer["kept_by"] = described.kept_by;
          reply.Ok(std::move(answer));
        });
      });
}

void Deployment::Data(const std::shared_ptr<Session>& session, const Message& message) {
  files_.Post(
      [store = store_, unpack = unpack_, base = std::filesystem::path(info_.base),
       ask = protocol::Body<protocol::DataAsk>(message)] {
        protocol::DataState state;
        if (!ask.offers.empty()) unpack->Begin(ask.offers, ask.images);
        state.waits = unpack->WaitsFor(store->places());
        if (!state.waits.empty()) return state;
        for (const std::string& key : ask.keys) {
          if (!IsHere(ask, key, base, *store)) state.missing.push_back(key);
        }
        return state;
      },
      [reply = Reply(session, message.id)](Outcome<protocol::DataState>& outcome) {
        reply.Try([&] { reply.Ok(outcome.Get()); });
      });
}

void Deployment::Pull(const std::shared_ptr<Session>& session, const Message& message) {
  images_.Begin(message.body.value("containers", std::vector<protocol::ContainerDescription>()));
  Reply(session, message.id).Ok();
}

void Deployment::Pulled(const std::shared_ptr<Session>& session, const Message& message) {
  Reply(session, message.id).Ok(images_.Look());
}

void Deployment::SetUp(const std::shared_ptr<Session>& session, const Message& message) {
  const auto ask = protocol::Body<protocol::SetUpAsk>(message);
  if (!waiting_) throw ProtocolError(Phase::kSetUp, "no set-up runs here");
  set_up_.Start();
  files_.Post(
      [look = look_, description = HostDescription(*waiting_), folder = folder_, info = info_,
       offset = ask.offset]() mutable {
        protocol::SetUpProgress progress = look->From(offset);
        if (progress.done) {
          FillMade(description, info);
          ReplaceFile(folder.description(), BytesToKeep(description), 0600);
          CheckCommands(description, folder, info);
          progress.waits = WhyPortsWait(description, folder, info);  // it may have taken long
        }
        std::vector<protocol::ImageOnHost> images;
        if (progress.done) images = PrepareContainers(description.tasks, folder, info);
        return SetUpAnswer{std::move(progress), std::move(description), std::move(images)};
      },
      [this, reply = Reply(session, message.id)](Outcome<SetUpAnswer>& outcome) {
        reply.Try([&] {
          const auto& [progress, description, images] = outcome.Get();
          if (progress.done && std::exchange(waiting_, std::nullopt)) on_described_(description);
          Json answer = progress;
          if (!images.empty()) answer["images"] = images;
          reply.Ok(std::move(answer));
        });
      });
}

// The command asks again and again: this thread has other work, and may be told to stop.
void Deployment::Ports(const std::shared_ptr<Session>& session, const Message& message) {
  files_.Post([folder = folder_,
               info = info_] { return WhyPortsWait(ReadDescription(folder), folder, info); },
              [reply = Reply(session, message.id)](Outcome<std::string>& outcome) {
                reply.Try([&] { reply.Ok({{"waits", outcome.Get()}}); });
              });
}

}  // namespace tfdist::agent
