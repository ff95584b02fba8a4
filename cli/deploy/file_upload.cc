#include "cli/deploy/file_upload.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/failures.h"
#include "wire/protocol.h"

namespace tfdist::cli {
namespace {

using namespace std::chrono_literals;
namespace type = protocol::type;

constexpr size_t kFilePieceBytes = 32 * 1024;
// A host that refuses a file (its disk is full, say) is heard before the next MiB.
constexpr uint64_t kBetweenLooks = 1 << 20;
constexpr auto kBetweenUploadChecks = 200ms;

// How much of the content the first `wire_bytes` hold, as far as one can say.
uint64_t ContentUpTo(const PackedFile& file, uint64_t wire_bytes) {
  const auto part = static_cast<double>(wire_bytes) / static_cast<double>(file.gzip_size_bytes());
  return static_cast<uint64_t>(part * static_cast<double>(file.description().size_bytes));
}

}  // namespace

FileUpload::FileUpload(AgentLink& link, std::function<void()> check,
                       std::function<void(uint64_t, uint64_t)> on_sent)
    : link_(link), check_(std::move(check)), on_sent_(std::move(on_sent)) {}

void FileUpload::Send(const PackedFile& file) {
  // One id for all pieces: whichever is refused, the answer tells which file it was.
  const uint64_t id = link_.NewId();
  unanswered_.insert(id);
  for (uint64_t offset = 0; offset < file.gzip_size_bytes();) {
    check_();
    if (offset % kBetweenLooks == 0) TakeAnswers(SystemClock().Now());
    std::string bytes = file.Read(offset, kFilePieceBytes);
    if (bytes.empty()) throw Error(Phase::kFiles, "a temporary file has become shorter");
    const size_t count = bytes.size();
    SendPiece(file, id, offset, std::move(bytes));
    on_sent_(ContentUpTo(file, offset + count) - ContentUpTo(file, offset), count);
    offset += count;
  }
}

void FileUpload::SendPiece(const PackedFile& file, uint64_t id, uint64_t offset,
                           std::string bytes) {
  const bool last = offset + bytes.size() >= file.gzip_size_bytes();
  link_.Send(protocol::MessageWith(
      type::kFile, id,
      protocol::FilePiece{file.description().sha256, offset, std::move(bytes), last}));
}

void FileUpload::Poll() {
  check_();
  TakeAnswers(SystemClock().Now());
}

void FileUpload::Finish(TimePoint deadline) {
  while (!unanswered_.empty()) {
    check_();
    const TimePoint now = SystemClock().Now();
    if (now >= deadline) {
      throw LostConnection(Phase::kUpload, "the host has not confirmed its files in time");
    }
    TakeAnswers(std::min(deadline, now + kBetweenUploadChecks));
  }
}

void FileUpload::TakeAnswers(TimePoint deadline) {
  while (const auto message = link_.Receive(deadline)) {
    protocol::ThrowIfError(*message);
    unanswered_.erase(message->id);
    if (unanswered_.empty()) return;
  }
}

}  // namespace tfdist::cli
