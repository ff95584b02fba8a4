#include "cli/stream/line_printer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

#include "base/unique_fd.h"

namespace tfdist::cli {
namespace {

using protocol::LogPiece;
using protocol::Stream;

LogPiece Piece(std::initializer_list<std::pair<Stream, std::string>> parts) {
  LogPiece piece;
  for (const auto& [stream, text] : parts) {
    piece.segments.push_back({stream, static_cast<uint32_t>(text.size()), 1, 1, 0});
    piece.data.value += text;
  }
  return piece;
}

class LinePrinterTest : public testing::Test {
 protected:
  LinePrinterTest() {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    read_end_.Reset(ends[0]);
    write_end_.Reset(ends[1]);
    fcntl(write_end_.get(), F_SETPIPE_SZ, 1 << 20);
  }
  std::string Printed() {
    std::string text(1 << 20, '\0');
    const ssize_t got = read(read_end_.get(), text.data(), text.size());
    text.resize(got > 0 ? static_cast<size_t>(got) : 0);
    return text;
  }
  UniqueFd read_end_;
  UniqueFd write_end_;
};

TEST_F(LinePrinterTest, PutsTheTaskBeforeEachWholeLine) {
  LinePrinter printer(write_end_.get(), {}, {"worker:0", "ps:0"});
  printer.Print("worker:0", Piece({{Stream::kStdout, "one\ntw"}}));
  EXPECT_EQ(Printed(), "worker:0 | one\n");
  printer.Print("ps:0", Piece({{Stream::kStdout, "up\n"}}));
  printer.Print("worker:0", Piece({{Stream::kStdout, "o\n"}}));
  EXPECT_EQ(Printed(), "ps:0     | up\nworker:0 | two\n");
}

TEST_F(LinePrinterTest, NeverMixesTheLinesOfTwoStreams) {
  LinePrinter printer(write_end_.get(), {}, {"w:0"});
  printer.Print("w:0", Piece({{Stream::kStdout, "out"}, {Stream::kStderr, "err\n"}}));
  printer.Print("w:0", Piece({{Stream::kStdout, "put\n"}}));
  EXPECT_EQ(Printed(), "w:0 | err\nw:0 | output\n");
}

TEST_F(LinePrinterTest, FinishPrintsTheLineWithoutNewline) {
  LinePrinter printer(write_end_.get(), {}, {"w:0"});
  printer.Print("w:0", Piece({{Stream::kStdout, "no newline"}}));
  EXPECT_EQ(Printed(), "");
  printer.Finish("w:0");
  EXPECT_EQ(Printed(), "w:0 | no newline\n");
}

TEST_F(LinePrinterTest, CutsALineWithoutEndAndMarksTheCut) {
  LinePrinter printer(write_end_.get(), {}, {"w:0"});
  printer.Print("w:0", Piece({{Stream::kStdout, std::string(64 * 1024 + 1, 'x')}}));
  EXPECT_EQ(Printed(), "w:0 | " + std::string(64 * 1024, 'x') + "\\\n");
}

TEST_F(LinePrinterTest, LeavesBytesAloneWithoutATerminal) {
  LinePrinter printer(write_end_.get(), {}, {"w:0"});
  printer.Print("w:0", Piece({{Stream::kStdout, "\xff\x1b[2J\n"}}));
  EXPECT_EQ(Printed(), "w:0 | \xff\x1b[2J\n");
}

TEST_F(LinePrinterTest, RawIsTheBytesAndNothingElse) {
  PrinterOptions options;
  options.raw = true;
  LinePrinter printer(write_end_.get(), options, {"w:0"});
  printer.Print("w:0", Piece({{Stream::kStdout, "a"}, {Stream::kStderr, "b\nc"}}));
  printer.Finish("w:0");
  EXPECT_EQ(Printed(), "ab\nc");
}

TEST_F(LinePrinterTest, SaysThatNobodyReadsAnyMore) {
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, nullptr);
  LinePrinter printer(write_end_.get(), {}, {"w:0"});
  read_end_.Reset();
  try {
    printer.Print("w:0", Piece({{Stream::kStdout, "gone\n"}}));
    FAIL();
  } catch (const OutputClosed& error) {
    EXPECT_TRUE(error.reader_left());
  }
}

TEST_F(LinePrinterTest, SaysThatTheDiskIsFull) {
  const UniqueFd full(open("/dev/full", O_WRONLY | O_CLOEXEC));
  LinePrinter printer(full.get(), {}, {"w:0"});
  try {
    printer.Print("w:0", Piece({{Stream::kStdout, "line\n"}}));
    FAIL();
  } catch (const OutputClosed& error) {
    EXPECT_FALSE(error.reader_left());
    EXPECT_EQ(error.cause(), "cannot write output: No space left on device");
  }
}

}  // namespace
}  // namespace tfdist::cli
