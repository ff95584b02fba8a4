#include "agent/files/file_server.h"

#include <utility>

#include "base/error.h"
#include "base/log.h"

namespace tfdist::agent {

FileServer::FileServer(FileThread& files, std::shared_ptr<FileStore> store, Send send)
    : thread_(files), store_(std::move(store)), send_(std::move(send)) {}

void FileServer::OnAsk(int slot, const protocol::FileAsk& ask) {
  int& pending = pending_[slot];
  if (pending >= kMostPending) return;
  ++pending;
  thread_.Post([store = store_, ask] { return store->Part(ask); },
               [this, slot, ask](Outcome<protocol::FilePart>& part) {
                 --pending_[slot];
                 try {
                   send_(slot, std::move(part.Get()));
                 } catch (const Error& error) {
                   Log("a part of a file for slot {}: {}", slot, error.cause());
                   send_(slot, {ask.sha256, ask.offset, protocol::PartState::kNone, {}});
                 }
               });
}

}  // namespace tfdist::agent
