// The files of a log, whatever a crash or a disk has made of them. A reader of the closed log gets
// all of the text, in order, in pieces of any size; of an open one no more than that. A writer that
// goes on leaves all text of the newest file as it was, and a log whose records are whole.
#include <sys/stat.h>

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>
#include <string>

#include "agent/fuzz/log_image.h"
#include "agent/log/line_search.h"
#include "agent/log/log_reader.h"
#include "agent/log/log_writer.h"
#include "agent/log/unfinished_lines.h"
#include "base/testing/temporary_folder.h"

namespace tfdist::agent {
namespace {

using fuzz::LogImage;

constexpr std::string_view kAdded = "added\n";

void WriteFile(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

// One folder for all inputs: a folder each would be most of the work.
class LogFolder {
 public:
  const std::filesystem::path& Hold(const LogImage& image) {
    for (const uint64_t start : ListLogFiles(path_)) {
      std::filesystem::remove(LogTextPath(path_, start));
      std::filesystem::remove(LogIndexPath(path_, start));
    }
    for (const auto& file : image.files) {
      WriteFile(LogTextPath(path_, file.start), file.text);
      WriteFile(LogIndexPath(path_, file.start), file.index);
    }
    return path_;
  }

 private:
  const TemporaryFolder temporary_;
  const std::filesystem::path path_ = temporary_.path();
};

void CheckPiece(const protocol::LogPiece& piece, uint64_t asked, size_t max_bytes) {
  assert(piece.offset >= asked);
  assert(piece.data.size() <= max_bytes);
  uint64_t described = 0;
  for (const protocol::LogSegment& segment : piece.segments) described += segment.size_bytes;
  assert(described == piece.data.size());
}

// All text that is to be read from `offset` on.
std::string ReadAll(LogReader& reader, uint64_t offset, size_t max_bytes, LogEnd end) {
  std::string text;
  while (true) {
    const protocol::LogPiece piece = reader.Read(offset, max_bytes, end);
    CheckPiece(piece, offset, max_bytes);
    if (piece.data.empty()) return text;
    text += piece.data;
    offset = piece.offset + piece.data.size();
  }
}

std::string TextOf(const LogImage& image) {
  std::string text;
  for (const auto& file : image.files) text += file.text;
  return text;
}

void Search(LogReader& reader, uint64_t lines) {
  LineSearch search(reader, lines, reader.Size(LogEnd::kClosed), LogEnd::kClosed);
  while (!search.Step(reader, 64)) continue;
  assert(search.offset() <= reader.Size(LogEnd::kClosed));
  const auto begun = UnfinishedLines(reader, search.offset(), LogEnd::kClosed);
  assert(std::ranges::all_of(begun, [&](auto& line) { return line.second < search.offset(); }));
}

void CheckReading(const std::filesystem::path& folder, const std::string& text) {
  LogReader reader(folder);
  assert(ReadAll(reader, 0, 7, LogEnd::kClosed) == text);
  assert(ReadAll(reader, 0, 1 << 20, LogEnd::kClosed) == text);
  assert(text.starts_with(ReadAll(reader, 0, 7, LogEnd::kOpen)));
  assert(reader.Size(LogEnd::kOpen) <= reader.Size(LogEnd::kClosed));
  for (const uint64_t offset : {reader.FirstOffset(), text.size() / 2, text.size(), UINT64_MAX}) {
    (void)ReadAll(reader, offset, 5, LogEnd::kClosed);
  }
  (void)reader.TextBefore(reader.Size(LogEnd::kClosed));
  for (const int64_t time : {INT64_MIN, int64_t{0}, int64_t{1}, INT64_MAX}) {
    (void)ReadAll(reader, reader.OffsetSince(time, LogEnd::kOpen), 64, LogEnd::kClosed);
  }
  Search(reader, 0);
  Search(reader, 2);
}

void CheckWriting(const std::filesystem::path& folder, const LogImage& image) {
  {
    LogWriter writer({.folder = folder, .limit_bytes = 1 << 20, .attempt = 2, .run = 3});
    writer.Append(protocol::Stream::kStdout, kAdded);
    assert(writer.lost_bytes() == 0);
  }
  const uint64_t last = image.files.empty() ? 0 : image.files.back().start;
  const auto file = LogFile::Open(folder, last);
  assert(file);
  uint64_t end = last;
  for (size_t number = 0; number < file->RecordCount(); ++number) {
    const auto record = file->Record(number);
    assert(record && record->offset == end);
    end = record->end();
  }
  assert(end == file->TextEnd());
  LogReader reader(folder);
  assert(ReadAll(reader, 0, 1 << 20, LogEnd::kOpen) == TextOf(image) + std::string(kAdded));
}

void Run(std::string_view input) {
  static LogFolder log;
  const LogImage image = fuzz::ParseImage(input);
  const auto& folder = log.Hold(image);
  CheckReading(folder, TextOf(image));
  CheckWriting(folder, image);
}

}  // namespace
}  // namespace tfdist::agent

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tfdist::agent::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
