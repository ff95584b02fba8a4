#include "agent/files/file_fetcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace tfdist::agent {

using protocol::kFilePartBytes;

FileFetcher::FileFetcher(EventLoop& loop, FileThread& files, std::shared_ptr<FileStore> store,
                         Ask ask)
    : loop_(loop),
      thread_(files),
      store_(std::move(store)),
      ask_(std::move(ask)),
      again_(loop_, [this] { AskAgain(); }) {}

void FileFetcher::Begin(std::vector<protocol::FileDescription> files) {
  files_ = std::move(files);
  at_ = 0;
  state_ = {};
  BeginFile();
}

void FileFetcher::BeginFile() {
  ++begun_;
  asked_ = taken_ = written_ = 0;
  probing_ = true;
  pausing_ = false;
  again_.Stop();
  state_.done = at_ == files_.size();
  if (state_.done) return;
  if (file().size_bytes == 0) return GiveUp("it is empty");
  AskOn();
}

void FileFetcher::AskOn() {
  if (pausing_) return;
  const uint64_t ahead = probing_ ? kFilePartBytes : kWindowBytes;
  const uint64_t end = std::min(file().size_bytes, (probing_ ? taken_ : written_) + ahead);
  for (; asked_ < end; asked_ += kFilePartBytes) ask_({file().sha256, asked_});
  again_.Start(kSilence);
}

void FileFetcher::AskAgain() {
  probing_ = true;
  pausing_ = false;
  asked_ = taken_;
  AskOn();
}

void FileFetcher::OnPart(const protocol::FilePart& part) {
  // Else it answers what was asked twice, or was lost meanwhile.
  if (state_.done || part.sha256 != file().sha256 || part.offset != taken_) return;
  switch (part.state) {
    case protocol::PartState::kNone:
      return GiveUp("the first host does not have it");
    case protocol::PartState::kLater:
      pausing_ = true;
      return again_.Start(kPause);
    case protocol::PartState::kData:
      return Take(part);
  }
}

void FileFetcher::Take(const protocol::FilePart& part) {
  const std::string& data = part.data;
  if (data.size() != std::min(kFilePartBytes, file().size_bytes - taken_)) {
    return GiveUp("the first host sent a part of the wrong size");
  }
  taken_ += data.size();
  state_.bytes += data.size();
  thread_.Post([store = store_, sha256 = part.sha256, offset = part.offset,
                data] { return store->AcceptContent(sha256, offset, data); },
               [this, file_number = begun_, bytes = data.size()](Outcome<bool>& whole) {
                 if (file_number == begun_) OnWritten(bytes, whole);
               });
  probing_ = false;
  pausing_ = false;
  asked_ = std::max(asked_, taken_);
  if (taken_ < file().size_bytes) return AskOn();
  again_.Stop();  // what is left to do is this host's own disk's
}

void FileFetcher::OnWritten(uint64_t bytes, Outcome<bool>& whole) {
  try {
    written_ += bytes;
    if (!whole.Get()) return taken_ < file().size_bytes ? AskOn() : void();
  } catch (const Error& error) {
    return GiveUp(error.cause());
  }
  ++at_;
  BeginFile();
}

void FileFetcher::GiveUp(const std::string& why) {
  if (state_.missing.empty()) state_.why = why;
  state_.missing.push_back(file().sha256);
  state_.bytes -= taken_;
  ++at_;
  BeginFile();
}

}  // namespace tfdist::agent
