#include "agent/files/file_receiver.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "base/error.h"
#include "base/file.h"

namespace tfdist::agent {

FileReceiver::FileReceiver(protocol::FileDescription file, std::filesystem::path path)
    : file_(std::move(file)), path_(std::move(path)), aside_(path_.string() + ".XXXXXX") {
  fd_.Reset(mkostemp(aside_.data(), O_CLOEXEC));
  if (!fd_.valid()) {
    throw Error(Phase::kFiles,
                WithErrno("cannot create a file in " + path_.parent_path().string(), errno));
  }
}

FileReceiver::~FileReceiver() {
  if (!aside_.empty()) unlink(aside_.c_str());
}

void FileReceiver::Add(const protocol::FilePiece& piece) {
  if (piece.offset != received_) {
    throw Error(Phase::kFiles,
                fmt::format("piece at {} of a file where {} was due", piece.offset, received_));
  }
  received_ += piece.data.size();
  gunzip_.Feed(piece.data, [this](std::string_view content) { Write(content); });
}

bool FileReceiver::AddContent(uint64_t offset, std::string_view content) {
  if (offset != written_) {
    throw Error(Phase::kFiles,
                fmt::format("a part at {} of a file where {} was due", offset, written_));
  }
  plain_ = true;
  Write(content);
  return written_ == file_.size_bytes;
}

void FileReceiver::Write(std::string_view content) {
  written_ += content.size();
  // A small piece can unpack to a thousand times its size: never more than was announced.
  if (written_ > file_.size_bytes) {
    throw Error(Phase::kFiles,
                fmt::format("a file is longer than the {} bytes announced", file_.size_bytes));
  }
  hash_.Update(content);
  WriteAll(fd_.get(), content, aside_);
}

void FileReceiver::Finish() {
  const std::string sha256 = hash_.FinishHex();
  if ((!plain_ && !gunzip_.finished()) || written_ != file_.size_bytes || sha256 != file_.sha256) {
    throw Error(Phase::kFiles,
                fmt::format("a file arrived damaged: {} of {} bytes, SHA-256 {} instead of {}",
                            written_, file_.size_bytes, sha256, file_.sha256),
                "start again; if it happens again, the network changes data");
  }
  // Not synced: after a power cut the next job hashes it, and asks for it anew (FileStore::Has).
  if (fchmod(fd_.get(), file_.executable ? 0500 : 0400) != 0) {
    throw Error(Phase::kFiles, WithErrno("cannot finish " + aside_, errno));
  }
  // execve of a file that somebody holds open for writing is refused (ETXTBSY). A file server says
  // only here that its disk is full.
  if (close(fd_.Release()) != 0) {
    throw Error(Phase::kFiles, WithErrno("cannot write " + aside_, errno));
  }
  if (rename(aside_.c_str(), path_.c_str()) != 0) {
    throw Error(Phase::kFiles, WithErrno("cannot name " + path_.string(), errno));
  }
  aside_.clear();
}

}  // namespace tfdist::agent
