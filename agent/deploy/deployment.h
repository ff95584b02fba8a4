// What comes before the commit: files, descriptions, and whether the tasks could run here.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include "agent/data/data_unpack.h"
#include "agent/deploy/image_pull.h"
#include "agent/files/file_fetcher.h"
#include "agent/files/file_server.h"
#include "agent/files/file_store.h"
#include "agent/keeper/keeper_link.h"
#include "agent/loop/event_loop.h"
#include "agent/loop/file_thread.h"
#include "agent/session/reply.h"
#include "agent/session/session.h"
#include "agent/setup/set_up_step.h"
#include "agent/slot/slot_folder.h"
#include "wire/protocol.h"

namespace tfdist::agent {

class Deployment {
 public:
  // What the tasks are: on disk, and able to run here.
  using OnDescribed = std::function<void(const protocol::HostDescription&)>;

  // The ways to other hosts.
  struct Ways {
    std::function<void(const protocol::Message&)> ask;  // the first host
    std::function<void(int slot, const protocol::Message&)>
        answer;  // on the first host: another one
  };

  Deployment(EventLoop& loop, FileThread& files, KeeperLink& keeper, const SlotFolder& folder,
             const SlotInfo& info, Ways ways, OnDescribed on_described);

  // The requests `kept`, `need`, `file`, `fetch`, `fetched` and `describe`. They throw Error when malformed.
  void Kept(const std::shared_ptr<Session>& session, const protocol::Message& message);
  void Need(const std::shared_ptr<Session>& session, const protocol::Message& message);
  void File(const std::shared_ptr<Session>& session, const protocol::Message& message);
  void Fetch(const std::shared_ptr<Session>& session, const protocol::Message& message);
  void Fetched(const std::shared_ptr<Session>& session, const protocol::Message& message);
  void Describe(const std::shared_ptr<Session>& session, const protocol::Message& message);
  // The request `data`.
  void Data(const std::shared_ptr<Session>& session, const protocol::Message& message);
  // `pull` and `pulled`.
  void Pull(const std::shared_ptr<Session>& session, const protocol::Message& message);
  void Pulled(const std::shared_ptr<Session>& session, const protocol::Message& message);
  // The request `set_up`: of what was described, where its set-up is yet to be run.
  void SetUp(const std::shared_ptr<Session>& session, const protocol::Message& message);
  // What a description has under way is given up. `done` is called once nothing of the set-up runs any more.
  void End(std::function<void()> done) {
    ended_.request_stop();
    set_up_.End(std::move(done));
  }
  // The request `ports`: of what was described.
  void Ports(const std::shared_ptr<Session>& session, const protocol::Message& message);

  // From other hosts: `ask_file` on slot 0, `file_part` elsewhere. They throw Error when malformed.
  void OnAsk(int slot, const protocol::Message& message);
  void OnPart(const protocol::Message& message);

 private:
  FileThread& files_;
  const SlotFolder& folder_;
  const SlotInfo& info_;
  OnDescribed on_described_;
  std::shared_ptr<FileStore> store_;    // belongs to the file thread
  std::shared_ptr<DataUnpack> unpack_;  // the same
  FileServer server_;
  FileFetcher fetcher_;
  ImagePull images_;
  SetUpStep set_up_;
  std::stop_source ended_;
  std::optional<protocol::HostDescription> waiting_;  // for its set-up
  std::shared_ptr<SetUpLook> look_;                   // belongs to the file thread
};

}  // namespace tfdist::agent
