#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "agent/log/line_search.h"
#include "agent/log/log_copy.h"
#include "agent/log/log_cursor.h"
#include "agent/log/log_files.h"
#include "agent/log/log_reader.h"
#include "agent/log/log_writer.h"
#include "base/failures.h"
#include "base/file.h"
#include "base/testing/file_size_limit.h"
#include "base/testing/temporary_folder.h"

namespace tfdist::agent {
namespace {

using protocol::LogPiece;
using protocol::Stream;

constexpr uint64_t kLimitBytes = 80'000;
constexpr size_t kLineBytes = 10;
constexpr int kLines = 30'000;

class LogTest : public testing::Test {
 protected:
  LogWriter Writer(int run = 1, uint64_t limit_bytes = 1 << 30) {
    return LogWriter({.folder = folder_, .limit_bytes = limit_bytes, .attempt = 1, .run = run});
  }
  // What lies in all text files, one behind the other.
  std::string FilesText() {
    std::string text;
    for (const uint64_t start : ListLogFiles(folder_)) {
      text += ReadFileIfExists(LogTextPath(folder_, start), 1 << 30).value();
    }
    return text;
  }
  // All that a reader gets from `offset` on, `step` bytes at a time.
  std::string ReadAll(uint64_t offset, LogEnd end, size_t step = 1000) {
    LogReader reader(folder_);
    std::string text;
    while (true) {
      const LogPiece piece = reader.Read(offset, step, end);
      if (piece.data.empty()) return text;
      text += piece.data;
      offset = piece.offset + piece.data.size();
    }
  }
  static uint64_t OffsetOfLastLines(LogReader& reader, uint64_t lines, LogEnd end) {
    LineSearch search(reader, lines, reader.Size(end), end);
    EXPECT_TRUE(search.Step(reader, 1 << 30));
    return search.offset();
  }
  void AppendRaw(const std::filesystem::path& path, std::string_view bytes) {
    const UniqueFd fd = OpenFile(path, O_WRONLY | O_APPEND);
    WriteAll(fd.get(), bytes, path.string());
  }

  const TemporaryFolder temporary_;
  std::filesystem::path folder_ = temporary_.path();
};

std::vector<Stream> Streams(const LogPiece& piece) {
  std::vector<Stream> streams;
  for (const auto& segment : piece.segments) streams.push_back(segment.stream);
  return streams;
}

TEST_F(LogTest, GivesBackTextStreamAndRun) {
  LogWriter writer = Writer(7);
  writer.Append(Stream::kStdout, "one\n");
  writer.Append(Stream::kStderr, std::string_view("t\0wo\xff\n", 6));
  LogReader reader(folder_);
  const LogPiece piece = reader.Read(0, 100, LogEnd::kOpen);
  EXPECT_EQ(piece.data, std::string("one\nt\0wo\xff\n", 10));
  EXPECT_EQ(Streams(piece), (std::vector{Stream::kStdout, Stream::kStderr}));
  EXPECT_EQ(piece.segments[0].size_bytes, 4U);
  EXPECT_EQ(piece.segments[1].run, 7);
  EXPECT_GT(piece.segments[1].time_ns, 0);
  EXPECT_EQ(reader.Size(LogEnd::kOpen), 10U);
}

TEST_F(LogTest, ReadsFromTheMiddleOfAPieceAndCutsTheLastOne) {
  LogWriter writer = Writer();
  writer.Append(Stream::kStdout, "0123456789");
  writer.Append(Stream::kStderr, "abcdefghij");
  LogReader reader(folder_);
  const LogPiece piece = reader.Read(5, 8, LogEnd::kOpen);
  EXPECT_EQ(piece.offset, 5U);
  EXPECT_EQ(piece.data, "56789abc");
  ASSERT_EQ(piece.segments.size(), 2U);
  EXPECT_EQ(piece.segments[0].size_bytes, 5U);
  EXPECT_EQ(piece.segments[1].size_bytes, 3U);
}

TEST_F(LogTest, AMissingLogIsAnEmptyOne) {
  LogReader reader(folder_ / "none");
  EXPECT_EQ(reader.Size(LogEnd::kClosed), 0U);
  EXPECT_EQ(reader.FirstOffset(), 0U);
  EXPECT_TRUE(reader.Read(0, 10, LogEnd::kClosed).data.empty());
  EXPECT_EQ(OffsetOfLastLines(reader, 3, LogEnd::kClosed), 0U);
  EXPECT_EQ(reader.OffsetSince(0, LogEnd::kClosed), 0U);
}

TEST_F(LogTest, MergesNeighboursOfOneOrigin) {
  LogWriter writer = Writer();
  for (int i = 0; i < 100; ++i) writer.Append(Stream::kStdout, "x");
  const LogPiece piece = LogReader(folder_).Read(0, 1000, LogEnd::kOpen);
  ASSERT_EQ(piece.segments.size(), 1U);
  EXPECT_EQ(piece.segments[0].size_bytes, 100U);
}

TEST_F(LogTest, OffsetsGoOnAcrossRunsAndRotations) {
  std::string written;
  for (int run = 1; run <= 3; ++run) {
    LogWriter writer = Writer(run, 100'000);
    for (int line = 0; line < 100; ++line) {
      const std::string text = "run " + std::to_string(run) + " " + std::string(80, 'x') + "\n";
      writer.Append(Stream::kStdout, text);
      written += text;
    }
  }
  EXPECT_GT(ListLogFiles(folder_).size(), 2U);
  EXPECT_EQ(FilesText(), written);
  EXPECT_EQ(ReadAll(0, LogEnd::kOpen), written);
  EXPECT_EQ(ReadAll(12'345, LogEnd::kOpen, 7), written.substr(12'345));
}

TEST_F(LogTest, DropsTheOldestBeyondTheLimitAndSaysWhereTheRestBegins) {
  LogWriter writer = Writer(1, kLimitBytes);
  std::string written;
  for (int i = 0; i < 5000; ++i) {
    const std::string text = "line " + std::to_string(i) + std::string(i % 200, '.') + "\n";
    writer.Append(Stream::kStdout, text);
    written += text;
  }
  uint64_t on_disk = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_))
    on_disk += entry.file_size();
  EXPECT_LE(on_disk, kLimitBytes + 1000);
  EXPECT_GT(on_disk, kLimitBytes / 2);
  LogReader reader(folder_);
  const uint64_t first = reader.FirstOffset();
  EXPECT_GT(first, 0U);
  EXPECT_EQ(reader.Size(LogEnd::kOpen), written.size());
  EXPECT_EQ(reader.Read(3, 10, LogEnd::kOpen).offset, first);
  EXPECT_EQ(ReadAll(0, LogEnd::kOpen), written.substr(first));
}

TEST_F(LogTest, APieceLargerThanAFileIsSpreadOverSeveral) {
  LogWriter writer = Writer(1, 1 << 17);  // files of 16 KiB
  std::string text;
  for (int i = 0; text.size() < 64 * 1024; ++i) text += std::to_string(i) + "\n";
  writer.Append(Stream::kMerged, text);
  EXPECT_GE(ListLogFiles(folder_).size(), 4U);
  EXPECT_EQ(ReadAll(0, LogEnd::kOpen), text);
}

// `ulimit -f`
TEST_F(LogTest, FilesStayBelowTheSizeThatTheKernelAllows) {
  const FileSizeLimitForTest limit(16 << 10);
  std::string text;
  for (int i = 0; text.size() < 100'000; ++i) text += std::to_string(i) + "\n";
  {
    LogWriter writer = Writer();
    for (size_t at = 0; at < text.size(); at += 700) {
      writer.Append(Stream::kMerged, std::string_view(text).substr(at, 700));
    }
    EXPECT_EQ(writer.lost_bytes(), 0U);
  }
  EXPECT_EQ(ReadAll(0, LogEnd::kClosed), text);
}

TEST_F(LogTest, TextBeyondTheIndexIsShownOnceTheLogIsClosedAndIndexedByTheNextWriter) {
  Writer().Append(Stream::kStdout, "known\n");
  AppendRaw(LogTextPath(folder_, 0), "unknown\n");
  LogReader reader(folder_);
  EXPECT_EQ(reader.Size(LogEnd::kOpen), 6U);
  EXPECT_EQ(ReadAll(0, LogEnd::kOpen), "known\n");
  EXPECT_EQ(reader.Size(LogEnd::kClosed), 14U);
  EXPECT_EQ(reader.Read(6, 100, LogEnd::kClosed).data, "unknown\n");
  EXPECT_EQ(Streams(reader.Read(0, 100, LogEnd::kClosed)),
            (std::vector{Stream::kStdout, Stream::kUnknown}));

  Writer(2).Append(Stream::kStdout, "more\n");
  const LogPiece piece = LogReader(folder_).Read(0, 100, LogEnd::kOpen);
  EXPECT_EQ(piece.data, "known\nunknown\nmore\n");
  EXPECT_EQ(Streams(piece), (std::vector{Stream::kStdout, Stream::kUnknown, Stream::kStdout}));
  EXPECT_EQ(piece.segments[1].run, 0);
}

TEST_F(LogTest, ATornRecordIsCutAtEveryLength) {
  Writer().Append(Stream::kStdout, "whole\n");
  const std::string index = ReadFileIfExists(LogIndexPath(folder_, 0), 1000).value();
  for (size_t torn = 1; torn < sizeof(LogRecord); ++torn) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directory(folder_);
    Writer().Append(Stream::kStdout, "whole\n");
    AppendRaw(LogTextPath(folder_, 0), "torn\n");
    AppendRaw(LogIndexPath(folder_, 0), index.substr(0, torn));
    EXPECT_EQ(ReadAll(0, LogEnd::kOpen), "whole\n");
    Writer().Append(Stream::kStdout, "next\n");
    EXPECT_EQ(ReadAll(0, LogEnd::kOpen), "whole\ntorn\nnext\n") << torn;
  }
}

TEST_F(LogTest, AFlippedBitCostsTheNamesOfStreamsAndNoText) {
  std::string written;
  {
    LogWriter writer = Writer();
    for (int i = 0; i < 20; ++i) {
      const std::string text = "line " + std::to_string(i) + "\n";
      writer.Append(i % 2 == 0 ? Stream::kStdout : Stream::kStderr, text);
      written += text;
    }
  }
  const std::filesystem::path path = LogIndexPath(folder_, 0);
  const std::string index = ReadFileIfExists(path, 10'000).value();
  for (size_t position = 0; position < index.size(); position += 7) {
    std::string damaged = index;
    damaged[position] = static_cast<char>(damaged[position] ^ 4);
    std::ofstream(path, std::ios::binary) << damaged;
    EXPECT_EQ(ReadAll(0, LogEnd::kClosed, 30), written) << position;
    Writer().Append(Stream::kStdout, "");
  }
}

TEST_F(LogTest, LooksForTheLastLinesInSteps) {
  LogWriter writer = Writer(1, 64 << 20);
  const std::string line = std::string(999, 'x') + "\n";
  for (int i = 0; i < 10'000; ++i) writer.Append(Stream::kStdout, line);
  protocol::ReadLog request;
  request.tail_lines = 9'000;
  LogCursor cursor(folder_, request);
  int asked = 1;
  auto piece = cursor.Next(100, LogEnd::kOpen);
  for (; !piece; piece = cursor.Next(100, LogEnd::kOpen)) ++asked;
  EXPECT_EQ(piece->offset, 1'000U * 1'000U);
  EXPECT_EQ(asked, 3) << "9 MB are looked at, 4 MiB at a time";
}

TEST_F(LogTest, FindsTheLastLinesAcrossFiles) {
  LogWriter writer = Writer(1, 40'000);
  for (int i = 0; i < 300; ++i) writer.Append(Stream::kStdout, "line " + std::to_string(i) + "\n");
  LogReader reader(folder_);
  const uint64_t last = OffsetOfLastLines(reader, 1, LogEnd::kOpen);
  EXPECT_EQ(ReadAll(last, LogEnd::kOpen), "line 299\n");
  const std::string hundred = ReadAll(OffsetOfLastLines(reader, 100, LogEnd::kOpen), LogEnd::kOpen);
  EXPECT_EQ(hundred.substr(0, 9), "line 200\n");
  EXPECT_EQ(OffsetOfLastLines(reader, 0, LogEnd::kOpen), reader.Size(LogEnd::kOpen));
  EXPECT_EQ(OffsetOfLastLines(reader, 1'000'000, LogEnd::kOpen), reader.FirstOffset());
  writer.Append(Stream::kStdout, "no newline");
  EXPECT_EQ(ReadAll(OffsetOfLastLines(reader, 2, LogEnd::kOpen), LogEnd::kOpen),
            "line 299\nno newline");
}

TEST_F(LogTest, FindsTheFirstTextSinceATime) {
  LogWriter writer = Writer(1, 40'000);
  for (int i = 0; i < 300; ++i) writer.Append(Stream::kStdout, "line " + std::to_string(i) + "\n");
  LogReader reader(folder_);
  const uint64_t first = reader.FirstOffset();
  EXPECT_EQ(reader.OffsetSince(0, LogEnd::kOpen), first);
  EXPECT_EQ(reader.OffsetSince(INT64_MAX, LogEnd::kOpen), reader.Size(LogEnd::kOpen));
  const LogFile file = LogFile::Open(folder_, first).value();
  const LogRecord second = file.Record(1).value();
  const uint64_t found = reader.OffsetSince(second.time_ns, LogEnd::kOpen);
  EXPECT_LE(found, second.offset);  // two records may carry one time
  EXPECT_GE(found, first);
}

// What a cursor brings in pieces, as text.
std::string TextOfAll(LogCursor& cursor, LogEnd end, size_t limit_bytes = 1000) {
  std::string text;
  while (true) {
    const auto piece = cursor.Next(limit_bytes, end);
    if (!piece) continue;
    if (piece->data.empty()) return text;
    text += piece->data;
  }
}

std::string LastLines(const std::filesystem::path& folder, uint64_t lines, size_t limit_bytes) {
  protocol::ReadLog request;
  request.tail_lines = lines;
  LogCursor cursor(folder, request);
  return TextOfAll(cursor, LogEnd::kOpen, limit_bytes);
}

TEST_F(LogTest, NoLastLineBeginsInItsMiddle) {
  LogWriter before = Writer(1);
  before.Append(Stream::kStderr, "of a run before");
  LogWriter writer = Writer(2);
  writer.Append(Stream::kStdout, "one\ntwo, ");
  writer.Append(Stream::kStderr, "bar 1\rbar 2\r");
  writer.Append(Stream::kStdout, "begun\nthree, ");
  writer.Append(Stream::kStderr, "bar 3\n");
  writer.Append(Stream::kStdout, "begun\n");
  for (const size_t limit : {2, 1000}) {
    EXPECT_EQ(LastLines(folder_, 1, limit), "three, begun\n");
  }
  // How much of an old frame goes out depends on the pieces; a '\r' ends it.
  EXPECT_EQ(LastLines(folder_, 2, 1000), "\rbar 2\rthree, bar 3\nbegun\n");
  EXPECT_EQ(LastLines(folder_, 3, 1000), "two, \rbar 2\rbegun\nthree, bar 3\nbegun\n");
  EXPECT_EQ(LastLines(folder_, 3, 2), "two, bar\rbar 2\rbegun\nthree, bar 3\nbegun\n");
}

TEST_F(LogTest, SaysWhatWasLeftOutBetweenBegunLines) {
  LogWriter writer = Writer();
  writer.Append(Stream::kStdout, "one, ");
  writer.Append(Stream::kStderr, "error\n");
  writer.Append(Stream::kStdout, "begun\n");
  protocol::ReadLog request;
  request.tail_lines = 1;
  LogCursor cursor(folder_, request);
  const auto first = cursor.Next(1000, LogEnd::kOpen).value();
  EXPECT_EQ(first.data, "one, ");
  EXPECT_FALSE(first.left_out);
  const auto second = cursor.Next(1000, LogEnd::kOpen).value();
  EXPECT_EQ(second.data, "begun\n");
  EXPECT_TRUE(second.left_out);
}

TEST_F(LogTest, FindsTheFirstTextSinceATimeAmongManyRecords) {
  LogWriter writer = Writer(1, 40'000);
  for (int i = 0; i < 300; ++i) writer.Append(Stream::kStdout, "line " + std::to_string(i) + "\n");
  LogReader reader(folder_);
  for (const uint64_t start : ListLogFiles(folder_)) {
    const LogFile file = LogFile::Open(folder_, start).value();
    for (size_t number = 0; number < file.RecordCount(); ++number) {
      const LogRecord record = file.Record(number).value();
      const uint64_t found = reader.OffsetSince(record.time_ns, LogEnd::kOpen);
      const auto piece = reader.Read(found, 1, LogEnd::kOpen, SegmentTimes::kExact);
      EXPECT_EQ(piece.segments.front().time_ns, record.time_ns);
      EXPECT_LE(found, record.offset);
    }
  }
}

TEST_F(LogTest, TextOfTwoTimesIsTwoSegmentsWhereThatIsAskedFor) {
  LogWriter writer = Writer();
  writer.Append(Stream::kStdout, "one\n");
  writer.Append(Stream::kStdout, "two\n");
  LogReader reader(folder_);
  EXPECT_EQ(reader.Read(0, 100, LogEnd::kOpen).segments.size(), 1U);
  const auto exact = reader.Read(0, 100, LogEnd::kOpen, SegmentTimes::kExact).segments;
  ASSERT_EQ(exact.size(), 2U);
  EXPECT_LT(exact[0].time_ns, exact[1].time_ns);
}

TEST_F(LogTest, SearchesForLinesAndBringsNothingElse) {
  LogWriter writer = Writer(1, 40'000);
  std::string fitting;
  for (int i = 0; i < 300; ++i) {
    const std::string line = "step " + std::to_string(i) + "\n";
    writer.Append(Stream::kStdout, line);
    if (i % 10 == 7) fitting += line;
  }
  protocol::ReadLog request;
  request.grep = "^step [0-9]*7$";
  LogCursor cursor(folder_, request);
  EXPECT_EQ(TextOfAll(cursor, LogEnd::kOpen), fitting);
}

// Else N last lines would be more, and a reader that is slower than the writer would never be done.
TEST_F(LogTest, WhatIsWrittenDuringAReadThatDoesNotFollowIsNotOfIt) {
  LogWriter writer = Writer();
  writer.Append(Stream::kStdout, "epoch 1\nepoch 2\n");
  const auto reads = [&](std::optional<uint64_t> lines, const std::string& grep, bool follow) {
    protocol::ReadLog request;
    request.tail_lines = lines;
    request.grep = grep;
    request.follow = follow;
    LogCursor cursor(folder_, request);
    std::string text = cursor.Next(4, LogEnd::kOpen).value_or(LogPiece{}).data;
    writer.Append(Stream::kStdout, "epoch 3\n");
    return text + TextOfAll(cursor, LogEnd::kOpen);
  };
  EXPECT_EQ(reads(1, "", false), "epoch 2\n");
  EXPECT_EQ(reads(1, "", true), "epoch 3\nepoch 3\n");
  EXPECT_EQ(reads({}, "epoch [34]", false), "epoch 3\nepoch 3\n");
  EXPECT_EQ(reads({}, "", false), "epoch 1\nepoch 2\nepoch 3\nepoch 3\nepoch 3\n");
}

// A line is not judged before it is whole, unless nobody writes any more.
TEST_F(LogTest, ASearchWaitsForTheEndOfALine) {
  LogWriter writer = Writer();
  writer.Append(Stream::kStdout, "other\nlo");
  protocol::ReadLog request;
  request.grep = "loss";
  request.follow = true;
  LogCursor cursor(folder_, request);
  EXPECT_EQ(TextOfAll(cursor, LogEnd::kOpen), "");
  writer.Append(Stream::kStdout, "ss 0.5\nthe last loss");
  EXPECT_EQ(TextOfAll(cursor, LogEnd::kOpen, 3), "loss 0.5\n");
  EXPECT_EQ(TextOfAll(cursor, LogEnd::kClosed), "the last loss");
}

TEST_F(LogTest, ASearchLooksAtTheNewestFrameOfALineThatRedrawsItself) {
  LogWriter writer = Writer(1, 64 << 20);
  std::string bar;
  for (int i = 0; i < 20'000; ++i) bar += "\rstep " + std::to_string(i);
  writer.Append(Stream::kStdout, bar);
  protocol::ReadLog request;
  request.grep = "step";
  request.follow = true;
  LogCursor cursor(folder_, request);
  const auto found = [&] { return TextOfAll(cursor, LogEnd::kOpen); };
  EXPECT_EQ(found(), "") << "the line has not ended";
  writer.Append(Stream::kStdout, "\rstep 20000\r\nstep 0\rend\n");
  EXPECT_EQ(found(), "step 20000\r\n");
  writer.Append(Stream::kStdout, "step 1\rstep 2");
  EXPECT_EQ(TextOfAll(cursor, LogEnd::kClosed), "step 2");
}

TEST_F(LogTest, OfALastLineThatRedrawsItselfOnlyTheNewestFrameIsSent) {
  LogWriter writer = Writer(1, 64 << 20);
  std::string bar;
  for (int i = 0; i < 150'000; ++i) bar += "\rstep " + std::to_string(i) + " of 150000";
  writer.Append(Stream::kMerged, "begin\n" + bar + "\r\nsaved\r\n" + bar);
  const auto sent = [&](uint64_t lines, bool all_frames = false) {
    protocol::ReadLog request;
    request.tail_lines = lines;
    request.all_frames = all_frames;
    LogCursor cursor(folder_, request);
    return TextOfAll(cursor, LogEnd::kOpen);
  };
  const std::string frame = "\rstep 149999 of 150000";
  EXPECT_EQ(sent(1), frame);
  EXPECT_EQ(sent(3), frame + "\r\nsaved\r\n" + frame);
  EXPECT_EQ(sent(9), "begin\n" + frame + "\r\nsaved\r\n" + frame);
  EXPECT_EQ(sent(1, true), bar);
}

TEST_F(LogTest, TheNewestFrameOfALastLineHasTheTimeOfItsOwn) {
  LogWriter writer = Writer(1, 64 << 20);
  constexpr int kFrames = 5000;
  writer.Append(Stream::kMerged, "begin\n");
  for (int i = 0; i < kFrames; ++i)
    writer.Append(Stream::kMerged, "step " + std::to_string(i) + "\r");
  writer.Append(Stream::kMerged, "all");
  writer.Append(Stream::kMerged, " steps");
  writer.Append(Stream::kMerged, "\nend\n");
  std::vector<int64_t> times;
  LogReader reader(folder_);
  for (uint64_t at = 0;;) {
    const auto piece = reader.Read(at, 1000, LogEnd::kOpen, SegmentTimes::kExact);
    if (piece.data.empty()) break;
    for (const auto& segment : piece.segments) times.push_back(segment.time_ns);
    at = piece.offset + piece.data.size();
  }
  protocol::ReadLog request;
  request.tail_lines = 3;
  request.exact_times = true;
  LogCursor cursor(folder_, request);
  std::string text;
  std::vector<protocol::LogSegment> segments;
  while (true) {
    const auto piece = cursor.Next(1 << 20, LogEnd::kOpen);
    if (!piece) continue;
    if (piece->data.empty()) break;
    text += piece->data;
    for (const auto& segment : piece->segments) segments.push_back(segment);
  }
  EXPECT_EQ(text, "begin\n\rall steps\nend\n");
  ASSERT_EQ(segments.size(), 5U);
  EXPECT_EQ(segments[1].size_bytes, 1U);
  EXPECT_EQ(segments[2].size_bytes, 3U);
  EXPECT_EQ(segments[2].time_ns, times[times.size() - 3]);
  EXPECT_EQ(segments[4].time_ns, times.back());
}

TEST_F(LogTest, ASearchGoesThroughALongLogInSteps) {
  LogWriter writer = Writer(1, 64 << 20);
  const std::string line = std::string(999, 'x') + "\n";
  for (int i = 0; i < 10'000; ++i) writer.Append(Stream::kStdout, line);
  writer.Append(Stream::kStdout, "found\n");
  protocol::ReadLog request;
  request.grep = "found";
  LogCursor cursor(folder_, request);
  int asked = 1;
  auto piece = cursor.Next(100, LogEnd::kOpen);
  for (; !piece; piece = cursor.Next(100, LogEnd::kOpen)) ++asked;
  EXPECT_EQ(piece->data, "found\n");
  EXPECT_EQ(piece->offset, 10'000U * 1000U);
  EXPECT_GE(asked, 3) << "10 MB are looked at, 4 MiB at a time, or less in 0.1 s";
}

TEST_F(LogTest, ASearchIsForBytesThatMayBeNul) {
  LogWriter writer = Writer();
  writer.Append(Stream::kStdout, std::string("a\0b needle\n", 11) + "\xff\n");
  protocol::ReadLog request;
  request.grep = "needle";
  LogCursor cursor(folder_, request);
  EXPECT_EQ(TextOfAll(cursor, LogEnd::kOpen), std::string("a\0b needle\n", 11));
  request.grep = "(";
  EXPECT_THROW(LogCursor(folder_, request), UsageError);
}

class LogCopyTest : public LogTest {
 protected:
  LogCopyTest() { std::filesystem::create_directory(shared_); }

  [[nodiscard]] CopyTarget Target() const {
    return {.parent = shared_, .folder = "job", .file = "worker-0.log", .umask = 022};
  }
  [[nodiscard]] std::string Copied() const {
    return ReadFileIfExists(shared_ / "job/worker-0.log", 1 << 30).value_or("");
  }
  void CopyAll(LogEnd end) {
    LogCopy copy(folder_, Target());
    while (copy.Step(end)) continue;
  }

  std::filesystem::path shared_ = temporary_.path() / "shared";
};

TEST_F(LogCopyTest, IsByteExactAcrossRotationsAndGoesOnWhereItWas) {
  CopyAll(LogEnd::kOpen);
  EXPECT_FALSE(std::filesystem::exists(shared_ / "job")) << "nothing was said yet";
  LogWriter writer = Writer(1, 40'000'000);
  std::string text;
  for (int i = 0; i < 300; ++i) {
    const std::string line = "line " + std::to_string(i) + "\n";
    writer.Append(Stream::kStdout, line);
    text += line;
    if (i % 60 == 0) CopyAll(LogEnd::kOpen);  // each time by another agent
  }
  CopyAll(LogEnd::kOpen);
  EXPECT_EQ(Copied(), text);
  struct stat info {};
  ASSERT_EQ(stat((shared_ / "job/worker-0.log").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0644U) << "as the account's own files";
}

TEST_F(LogCopyTest, WhatWasRotatedAwayIsAHoleAndEveryOtherByteIsInItsPlace) {
  LogWriter writer = Writer(1, 40'000);
  for (int i = 0; i < 3'000; ++i) writer.Append(Stream::kStdout, "some text of a line\n");
  CopyAll(LogEnd::kOpen);
  LogReader reader(folder_);
  const uint64_t first = reader.FirstOffset();
  ASSERT_GT(first, 0U);
  EXPECT_EQ(Copied(), std::string(first, '\0') + ReadAll(first, LogEnd::kOpen));
}

TEST_F(LogCopyTest, FollowsNoLinkOfOthersAndSaysWhatIsWrong) {
  Writer().Append(Stream::kStdout, "text\n");
  std::filesystem::create_directory(temporary_.path() / "elsewhere");
  std::filesystem::create_directory_symlink(temporary_.path() / "elsewhere", shared_ / "job");
  EXPECT_THROW(CopyAll(LogEnd::kOpen), Error);
  EXPECT_TRUE(std::filesystem::is_empty(temporary_.path() / "elsewhere"));
  std::filesystem::remove(shared_ / "job");
  std::filesystem::create_directory(shared_ / "job");
  std::filesystem::create_symlink(temporary_.path() / "victim", shared_ / "job/worker-0.log");
  EXPECT_THROW(CopyAll(LogEnd::kOpen), Error);
  EXPECT_FALSE(std::filesystem::exists(temporary_.path() / "victim"));
}

TEST_F(LogCopyTest, WritesToNoFileThatHasAnotherNameOrBelongsToAnotherAccount) {
  Writer().Append(Stream::kStdout, "text\n");
  const std::filesystem::path victim = temporary_.path() / "victim";
  ReplaceFile(victim, "mine\n", 0600);
  std::filesystem::create_directory(shared_ / "job");
  std::filesystem::create_hard_link(victim, shared_ / "job/worker-0.log");
  EXPECT_THROW(CopyAll(LogEnd::kOpen), Error);
  EXPECT_EQ(ReadFileIfExists(victim, 100), "mine\n");
  std::filesystem::remove(victim);
  if (geteuid() == 0) {
    for (const char* name : {"job/worker-0.log", "job"}) {
      ASSERT_EQ(chown((shared_ / name).c_str(), 12345, 12345), 0);
      EXPECT_THROW(CopyAll(LogEnd::kOpen), Error) << name;
      ASSERT_EQ(chown((shared_ / name).c_str(), 0, 0), 0);
    }
    EXPECT_EQ(Copied(), "mine\n");
    // A file server that gives everybody's files to one account gives it the shared folder as well.
    for (const char* name : {"job/worker-0.log", "job", "."}) {
      ASSERT_EQ(chown((shared_ / name).c_str(), 12345, 12345), 0);
    }
  }
  std::filesystem::resize_file(shared_ / "job/worker-0.log", 0);
  CopyAll(LogEnd::kOpen);
  EXPECT_EQ(Copied(), "text\n");
}

// No gap and no doubled byte while the writer rotates under the reader.
TEST_F(LogTest, AFollowerCrossesRotationsOfALivingWriter) {
  std::string written;
  for (int i = 0; written.size() < 600'000; ++i) written += "line " + std::to_string(i) + "\n";
  std::atomic<bool> done{false};
  std::thread writing([&] {
    LogWriter writer = Writer(1, 1 << 20);
    std::string_view rest = written;
    while (!rest.empty()) {
      const size_t size = std::min<size_t>(rest.size(), 1 + rest.size() % 777);
      writer.Append(Stream::kStdout, rest.substr(0, size));
      rest.remove_prefix(size);
    }
    done = true;
  });
  LogReader reader(folder_);
  std::string got;
  while (true) {
    const bool was_done = done;
    const LogPiece piece = reader.Read(got.size(), 3000, LogEnd::kOpen);
    ASSERT_EQ(piece.offset, got.size());
    if (piece.data.empty() && was_done) break;
    got += piece.data;
  }
  writing.join();
  EXPECT_TRUE(got == written);
}

// A slow reader of a log that loses its oldest files meets gaps, never wrong text.
TEST_F(LogTest, AReaderThatIsOvertakenMeetsOnlyNamedGaps) {
  std::atomic<bool> done{false};
  std::thread writing([&] {
    LogWriter writer = Writer(1, 64 * 1024);
    for (int i = 0; i < kLines; ++i) {
      writer.Append(Stream::kStdout, fmt::format("{:09}\n", i));
    }
    done = true;
  });
  LogReader reader(folder_);
  uint64_t offset = 0;
  while (true) {
    const bool was_done = done;
    const LogPiece piece = reader.Read(offset, 500, LogEnd::kOpen);
    ASSERT_GE(piece.offset, offset);
    for (size_t i = 0; i < piece.data.size(); ++i) {
      const uint64_t position = piece.offset + i;
      const std::string line = fmt::format("{:09}\n", position / kLineBytes);
      ASSERT_EQ(piece.data[i], line[position % kLineBytes]) << position;
    }
    if (piece.data.empty() && was_done) break;
    offset = piece.offset + piece.data.size();
  }
  writing.join();
  EXPECT_EQ(offset, kLines * kLineBytes);
}

class FullDiskTest : public LogTest {
 protected:
  void SetUp() override {
    if (mount("tfdist-test", folder_.c_str(), "tmpfs", 0, "size=256k") != 0) {
      GTEST_SKIP() << "cannot mount a small disk here (not root)";
    }
    mounted_ = true;
  }
  void TearDown() override {
    if (mounted_) umount2(folder_.c_str(), MNT_DETACH);
  }
  bool mounted_ = false;
};

TEST_F(FullDiskTest, DropsWhatHasNoRoomCountsItAndSaysSoWhenThereIsRoom) {
  LogWriter writer = Writer();
  writer.Append(Stream::kStdout, "before\n");
  {
    const std::string ballast(1 << 20, 'b');
    const UniqueFd fd = OpenFile(folder_ / "ballast", O_WRONLY | O_CREAT);
    while (write(fd.get(), ballast.data(), ballast.size()) > 0) continue;
  }
  // The last page of a file has room yet.
  while (writer.dropped_bytes() == 0) writer.Append(Stream::kStdout, "\n");
  const std::string kept = ReadAll(0, LogEnd::kOpen);
  const std::string lost(100'000, 'l');
  writer.Append(Stream::kStdout, lost);
  writer.Append(Stream::kStderr, lost);
  EXPECT_EQ(writer.dropped_bytes(), 2 * lost.size() + 1);
  EXPECT_EQ(writer.lost_bytes(), 2 * lost.size() + 1);
  EXPECT_EQ(ReadAll(0, LogEnd::kOpen), kept);

  std::filesystem::remove(folder_ / "ballast");
  writer.Append(Stream::kStdout, "after\n");
  EXPECT_EQ(writer.dropped_bytes(), 0U);
  EXPECT_EQ(writer.lost_bytes(), 2 * lost.size() + 1);
  const LogPiece piece = LogReader(folder_).Read(0, 10'000, LogEnd::kOpen);
  EXPECT_EQ(piece.data,
            kept + "tfdist: 200001 bytes of output dropped: No space left on device\nafter\n");
  EXPECT_EQ(Streams(piece), (std::vector{Stream::kStdout, Stream::kTfdist, Stream::kStdout}));
  EXPECT_EQ(FilesText(), piece.data);
}

TEST_F(FullDiskTest, ALogThatCannotEvenBeMadeBeginsWhenThereIsRoom) {
  ASSERT_EQ(mount("tfdist-test", folder_.c_str(), "tmpfs", MS_REMOUNT, "nr_inodes=1"), 0);
  LogWriter writer = Writer();
  writer.Append(Stream::kStdout, "lost\n");
  EXPECT_EQ(writer.dropped_bytes(), 5U);
  ASSERT_EQ(mount("tfdist-test", folder_.c_str(), "tmpfs", MS_REMOUNT, "nr_inodes=100"), 0);
  writer.Close();
  EXPECT_EQ(ReadAll(0, LogEnd::kClosed),
            "tfdist: 5 bytes of output dropped: No space left on device\n");
}

TEST_F(LogTest, FilesArePrivate) {
  Writer().Append(Stream::kStdout, "secret\n");
  for (const auto& path : {LogTextPath(folder_, 0), LogIndexPath(folder_, 0)}) {
    struct stat info {};
    ASSERT_EQ(stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600U);
  }
}

}  // namespace
}  // namespace tfdist::agent
