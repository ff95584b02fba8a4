#include "cli/stream/line_printer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <optional>

#include "base/unique_fd.h"

namespace tfdist::cli {
namespace {

using namespace std::chrono_literals;
using protocol::LogPiece;
using protocol::Stream;

LogPiece Piece(std::initializer_list<std::pair<Stream, std::string>> parts) {
  LogPiece piece;
  for (const auto& [stream, text] : parts) {
    piece.segments.push_back({stream, static_cast<uint32_t>(text.size()), 1, 1, 0});
    piece.data += text;
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

TEST_F(LinePrinterTest, PutsStderrApartInTheOrderOfWriting) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
  const UniqueFd errors(ends[0]);
  const UniqueFd stderr_end(ends[1]);
  PrinterOptions options;
  options.stderr_fd = stderr_end.get();
  LinePrinter printer(write_end_.get(), options, {"w:0"});
  printer.Print("w:0", Piece({{Stream::kStdout, "one\n"},
                              {Stream::kStderr, "two\n"},
                              {Stream::kMerged, "three\n"}}));
  EXPECT_EQ(Printed(), "w:0 | one\nw:0 | three\n");
  char text[100];
  EXPECT_EQ(std::string(text, static_cast<size_t>(read(errors.get(), text, sizeof text))),
            "w:0 | two\n");
}

TEST_F(LinePrinterTest, PrintsAnObjectALine) {
  LinePrinter printer(write_end_.get(), {.json = true}, {"w:0"});
  printer.Print("w:0", Piece({{Stream::kStderr, "a \"b\"\xff\nrest"}}));
  printer.Finish("w:0");
  EXPECT_EQ(
      Printed(),
      R"({"attempt":1,"cut":false,"line":"a \"b\"\ufffd","run":1,"stream":"stderr","task":"w:0","time_ns":0})"
      "\n"
      R"({"attempt":1,"cut":false,"line":"rest","run":1,"stream":"stderr","task":"w:0","time_ns":0})"
      "\n");
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

// A terminal of 20 columns, of which "w:0 | " takes 6.
PrinterOptions Terminal() { return {.filter = true, .columns = 20}; }

TEST_F(LinePrinterTest, ShowsAnUnfinishedLineAfterHalfASecondAndWritesItAgainInItsPlace) {
  LinePrinter printer(write_end_.get(), Terminal(), {"w:0"});
  const TimePoint start{};
  printer.Print("w:0", Piece({{Stream::kStdout, "\r10%"}}));
  EXPECT_EQ(printer.ShowUnfinished(start), start + 500ms);
  EXPECT_EQ(Printed(), "");
  EXPECT_EQ(printer.ShowUnfinished(start + 500ms), std::nullopt);
  EXPECT_EQ(Printed(), "w:0 | 10%");
  printer.Print("w:0", Piece({{Stream::kStdout, "\r20%"}}));
  EXPECT_EQ(printer.ShowUnfinished(start + 600ms), start + 1100ms);
  printer.Print("w:0", Piece({{Stream::kStdout, "\r30%"}}));
  EXPECT_EQ(printer.ShowUnfinished(start + 1100ms), std::nullopt);
  EXPECT_EQ(Printed(), "\r\x1b[Kw:0 | 30%");
  printer.Print("w:0", Piece({{Stream::kStdout, "\rdone\nnext\n"}}));
  EXPECT_EQ(Printed(), "\r\x1b[Kw:0 | done\nw:0 | next\n");
}

TEST_F(LinePrinterTest, AnUnfinishedLineThatWasPushedAwayIsShownAgainLater) {
  LinePrinter printer(write_end_.get(), Terminal(), {"w:0", "w:1"});
  const TimePoint start{};
  printer.Print("w:0", Piece({{Stream::kStdout, "Name? "}}));
  printer.ShowUnfinished(start);
  printer.ShowUnfinished(start + 1s);
  printer.Print("w:1", Piece({{Stream::kStdout, "up\n"}}));
  EXPECT_EQ(Printed(), "w:0 | Name? \nw:1 | up\n");
  EXPECT_EQ(printer.ShowUnfinished(start + 9s), std::nullopt);  // nothing new
  printer.Print("w:0", Piece({{Stream::kStdout, "x"}}));
  EXPECT_EQ(printer.ShowUnfinished(start + 10s), start + 15s);
  printer.ShowUnfinished(start + 15s);
  EXPECT_EQ(Printed(), "w:0 | Name? x");
}

TEST_F(LinePrinterTest, CutsAnUnfinishedLineToTheTerminalAndPrintsItWholeOnceItEnds) {
  LinePrinter printer(write_end_.get(), Terminal(), {"w:0"});
  const TimePoint start{};
  printer.Print("w:0", Piece({{Stream::kStdout, "0123456789ab\xc3\xa4xyz"}}));
  printer.ShowUnfinished(start);
  printer.ShowUnfinished(start + 1s);
  EXPECT_EQ(Printed(), "w:0 | 0123456789ab\xc3\xa4");
  printer.Finish("w:0");
  EXPECT_EQ(Printed(), "\r\x1b[Kw:0 | 0123456789ab\xc3\xa4xyz\n");
}

TEST_F(LinePrinterTest, CutsAProgressBarByColumns) {
  LinePrinter printer(write_end_.get(), Terminal(), {"w:0"});
  const TimePoint start{};
  const std::string full = "\u2588\u2588\u2588\u2588\u2588\u2588 50%";  // 10 columns of 22 bytes
  printer.Print("w:0", Piece({{Stream::kStdout, full}}));
  printer.ShowUnfinished(start);
  printer.ShowUnfinished(start + 1s);
  EXPECT_EQ(Printed(), "w:0 | " + full);
  printer.Print(
      "w:0",
      Piece({{Stream::kStdout, "\r\u4e2d\u4e2d\u4e2d\u4e2d\u4e2d\u4e2d\u4e2d"}}));  // two each
  printer.ShowUnfinished(start + 2s);
  printer.ShowUnfinished(start + 3s);
  EXPECT_EQ(Printed(), "\r\x1b[Kw:0 | \u4e2d\u4e2d\u4e2d\u4e2d\u4e2d\u4e2d");
}

TEST_F(LinePrinterTest, PrintsTheNewestFrameOfALineThatRedrawsItself) {
  for (const bool json : {false, true}) {
    LinePrinter printer(write_end_.get(), {.json = json}, {"w:0"});
    std::string bar = "\r0%";
    for (int i = 1; i < 20'000; ++i) bar += "\r" + std::to_string(i) + " of 20000";
    printer.Print("w:0", Piece({{Stream::kStdout, bar}}));
    printer.Print("w:0", Piece({{Stream::kStdout, "\r20000"}, {Stream::kStdout, "\ncrlf\r\n"}}));
    const std::string printed = Printed();
    EXPECT_EQ(std::count(printed.begin(), printed.end(), '\n'), 2) << printed.substr(0, 1000);
    const std::string lines = json ? R"("line":"20000")" : "w:0 | 20000\nw:0 | crlf\n";
    EXPECT_NE(printed.find(lines), std::string::npos) << printed.substr(0, 1000);
  }
}

TEST_F(LinePrinterTest, APipeGetsTheNewestFrameOfALineThatRedrawsItselfEachSecond) {
  LinePrinter printer(write_end_.get(), {}, {"w:0", "w:1"});
  const TimePoint start{};
  printer.Print("w:0", Piece({{Stream::kStderr, "\r10%\r20%"}}));
  EXPECT_EQ(printer.ShowUnfinished(start), start + 1s);
  EXPECT_EQ(Printed(), "");
  EXPECT_EQ(printer.ShowUnfinished(start + 1s), std::nullopt);
  EXPECT_EQ(Printed(), "w:0 | 20%\n");
  EXPECT_EQ(printer.ShowUnfinished(start + 1h), std::nullopt) << "nothing new";
  printer.Print("w:0", Piece({{Stream::kStderr, "\r30%\r"}}));
  printer.Print("w:1", Piece({{Stream::kStderr, "up\n"}}));
  printer.Print("w:0", Piece({{Stream::kStderr, "100%"}}));
  printer.ShowUnfinished(start + 2h);
  printer.ShowUnfinished(start + 3h);
  printer.Print("w:0", Piece({{Stream::kStderr, "\nend\n"}}));
  EXPECT_EQ(Printed(), "w:1 | up\nw:0 | 100%\nw:0 | end\n");
}

TEST_F(LinePrinterTest, APipeGetsTheRestOfALineBehindItsBeginning) {
  LinePrinter printer(write_end_.get(), {}, {"w:0", "w:1"});
  TimePoint now{};
  const auto show = [&] {
    printer.ShowUnfinished(now);
    printer.ShowUnfinished(now += 1s);
    return Printed();
  };
  printer.Print("w:0", Piece({{Stream::kStdout, "loading"}}));
  EXPECT_EQ(show(), "w:0 | loading");
  printer.Print("w:0", Piece({{Stream::kStdout, " ..."}}));
  EXPECT_EQ(show(), " ...");
  printer.Print("w:1", Piece({{Stream::kStdout, "up\n"}}));
  EXPECT_EQ(Printed(), "\\\nw:1 | up\n");
  printer.Print("w:0", Piece({{Stream::kStdout, " done\nnext"}}));
  EXPECT_EQ(Printed(), "w:0 |  done\n");
  EXPECT_EQ(show(), "w:0 | next");
  printer.Print("w:0", Piece({{Stream::kStdout, "\rredrawn"}}));
  printer.Finish("w:0");
  EXPECT_EQ(Printed(), "\nw:0 | redrawn\n");
}

TEST_F(LinePrinterTest, JsonWaitsForTheEndOfALine) {
  LinePrinter printer(write_end_.get(), {.json = true}, {"w:0"});
  printer.Print("w:0", Piece({{Stream::kStdout, "10%\r"}}));
  EXPECT_EQ(printer.ShowUnfinished(TimePoint{}), std::nullopt);
  EXPECT_EQ(printer.ShowUnfinished(TimePoint{} + 1h), std::nullopt);
  EXPECT_EQ(Printed(), "");
}

TEST_F(LinePrinterTest, CutsALineWithoutEndAndMarksTheCut) {
  LinePrinter printer(write_end_.get(), {}, {"w:0"});
  printer.Print("w:0", Piece({{Stream::kStdout, std::string(64 * 1024 + 1, 'x')}}));
  EXPECT_EQ(Printed(), "w:0 | " + std::string(64 * 1024, 'x') + "\\\n");
}

TEST_F(LinePrinterTest, PutsTheTimeAtWhichALineBeganAfterItsTask) {
  LinePrinter printer(write_end_.get(), {.timestamps = true}, {"w:0"});
  LogPiece piece = Piece({{Stream::kStdout, "one\ntw"}, {Stream::kStdout, "o\nthree\n"}});
  piece.segments[0].time_ns = 1'785'585'600'007'000'000;
  piece.segments[1].time_ns = 1'785'585'601'000'000'000;
  printer.Print("w:0", piece);
  EXPECT_EQ(Printed(),
            "w:0 | 2026-08-01T12:00:00.007Z one\n"
            "w:0 | 2026-08-01T12:00:00.007Z two\n"
            "w:0 | 2026-08-01T12:00:01.000Z three\n");
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
