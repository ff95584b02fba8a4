// Gets files from the first host, one after the other and part by part. Nothing that comes is believed:
// a file counts once its content has the hash that the CLI has named.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/files/file_store.h"
#include "agent/loop/event_loop.h"
#include "agent/loop/file_thread.h"
#include "wire/file_fetch.h"
#include "wire/protocol.h"

namespace tfdist::agent {

// On the loop's thread. It waits for the first host as long as the CLI lets it: that knows whether the
// first host still gets the file itself.
class FileFetcher {
 public:
  using Ask = std::function<void(const protocol::FileAsk&)>;

  FileFetcher(EventLoop& loop, FileThread& files, std::shared_ptr<FileStore> store, Ask ask);

  // The store expects them. What is under way is given up.
  void Begin(std::vector<protocol::FileDescription> files);
  void OnPart(const protocol::FilePart& part);
  [[nodiscard]] const protocol::Fetched& state() const { return state_; }

 private:
  // Bytes that are asked for and not on disk yet.
  static constexpr uint64_t kWindowBytes = 32 * protocol::kFilePartBytes;
  static constexpr std::chrono::milliseconds kPause{50};      // before "not yet" is asked again
  static constexpr std::chrono::milliseconds kSilence{2000};  // an ask or its answer is lost

  void BeginFile();
  void AskOn();
  void AskAgain();
  void Take(const protocol::FilePart& part);
  void OnWritten(uint64_t bytes, Outcome<bool>& whole);
  void GiveUp(const std::string& why);
  [[nodiscard]] const protocol::FileDescription& file() const { return files_[at_]; }

  EventLoop& loop_;
  FileThread& thread_;
  std::shared_ptr<FileStore> store_;  // belongs to the file thread
  Ask ask_;
  std::vector<protocol::FileDescription> files_;
  size_t at_ = 0;       // the one whose turn it is
  uint64_t begun_ = 0;  // counts files: what is written for an earlier one is of no interest
  // Of that file: asked for, come, and on disk up to these offsets.
  uint64_t asked_ = 0;
  uint64_t taken_ = 0;
  uint64_t written_ = 0;
  bool probing_ = false;  // one part alone is asked for until it comes
  bool pausing_ = false;  // the first host has said "not yet"
  protocol::Fetched state_;
  EventLoop::Timer again_;
};

}  // namespace tfdist::agent
