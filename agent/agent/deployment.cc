#include "agent/agent/deployment.h"

#include <chrono>
#include <filesystem>
#include <utility>
#include <vector>

#include "agent/check/quick_look.h"
#include "agent/files/disk_room.h"
#include "agent/frame.h"
#include "agent/job_layout.h"
#include "agent/tasks/preflight.h"
#include "agent/tasks/work_files.h"
#include "base/failures.h"
#include "base/file.h"
#include "base/log.h"

namespace tfdist::agent {
namespace {

using protocol::FileDescription;
using protocol::HostDescription;
using protocol::Json;
using protocol::Message;

using Troubles = std::vector<protocol::Trouble>;

// For a program that says something about the host.
constexpr std::chrono::seconds kQuickLookLimit{2};

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

}  // namespace

Deployment::Deployment(FileThread& files, const SlotFolder& folder, const SlotInfo& info,
                       OnDescribed on_described)
    : files_(files),
      folder_(folder),
      info_(info),
      on_described_(std::move(on_described)),
      store_(std::make_shared<FileStore>(std::filesystem::path(info.base) / layout::kFiles)) {}

void Deployment::Need(const std::shared_ptr<Session>& session, const Message& message) {
  std::vector<FileDescription> files;
  try {
    message.body.at("files").get_to(files);
  } catch (const Json::exception& e) {
    throw ProtocolError(Phase::kFiles, std::string("malformed list of files: ") + e.what());
  }
  files_.Post(
      [store = store_, base = std::filesystem::path(info_.base), files] {
        try {
          store->ForgetUnused();
        } catch (const Error& e) {
          Log("{}, ignoring", e.what());  // the disk is full, perhaps of other things
        }
        std::vector<std::string> missing;
        uint64_t needed_bytes = 0;
        for (const FileDescription& file : files) {
          if (PathInWork(file.link)) needed_bytes += file.size_bytes;  // the tasks' copy
          if (store->Has(file)) continue;
          store->Expect(file);
          missing.push_back(file.sha256);
          needed_bytes += file.size_bytes;
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

void Deployment::Describe(const std::shared_ptr<Session>& session, const Message& message) {
  const auto description = protocol::Body<HostDescription>(message);
  CheckDescription(description);
  // The secret lies in its own file alone, which goes with the job.
  HostDescription kept = description;
  kept.secret = {};
  files_.Post(
      [store = store_, description, folder = folder_, info = info_,
       bytes = protocol::Encode({message.type, message.id, kept})] {
        ReplaceFile(folder.secret(), description.secret.value, 0600);
        ReplaceFile(folder.description(), bytes, 0600);
        Prepare(description, *store, folder, info);
        return QuickLook(info.base, SystemClock().Now() + kQuickLookLimit);
      },
      [this, description, reply = Reply(session, message.id)](Outcome<Troubles>& outcome) {
        reply.Try([&] {
          const Troubles& troubles = outcome.Get();
          on_described_(description);
          reply.Ok({{"troubles", troubles}});
        });
      });
}

}  // namespace tfdist::agent
