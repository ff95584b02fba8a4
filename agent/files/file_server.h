// Slot 0's side: parts of the job's files for the other hosts.
#pragma once

#include <functional>
#include <map>
#include <memory>

#include "agent/files/file_store.h"
#include "agent/loop/file_thread.h"
#include "wire/file_fetch.h"

namespace tfdist::agent {

// On the loop's thread.
class FileServer {
 public:
  // May fail: the other host asks again.
  using Send = std::function<void(int slot, protocol::FilePart)>;

  FileServer(FileThread& files, std::shared_ptr<FileStore> store, Send send);

  // Of a file that this job has not announced here nothing is given. Beyond kMostPending asks of one
  // slot further ones are dropped: what a host can make us do and hold is bounded.
  void OnAsk(int slot, const protocol::FileAsk& ask);

 private:
  static constexpr int kMostPending = 64;

  FileThread& thread_;
  std::shared_ptr<FileStore> store_;  // belongs to the file thread
  Send send_;
  std::map<int, int> pending_;  // by slot
};

}  // namespace tfdist::agent
