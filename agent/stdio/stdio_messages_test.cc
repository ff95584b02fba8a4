#include "agent/stdio/stdio_messages.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <string>
#include <thread>

#include "base/error.h"
#include "base/testing/soon.h"
#include "base/unique_fd.h"

namespace tfdist::agent {
namespace {

class StdioMessagesTest : public testing::Test {
 protected:
  StdioMessagesTest() {
    std::array<int, 2> ends{};
    EXPECT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
    out_.Reset(ends[0]);
    in_.Reset(ends[1]);
  }
  void Write(const std::string& bytes) {
    EXPECT_EQ(write(in_.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }

  UniqueFd out_;
  UniqueFd in_;
};

TimePoint InAMoment() { return SystemClock().Now() + std::chrono::milliseconds(300); }

TEST_F(StdioMessagesTest, ReadsOneMessageAndNotAByteMore) {
  Write(protocol::Frame({"ping", 7}) + "rest");
  const auto message = ReadMessage(out_.get(), Soon());
  ASSERT_TRUE(message);
  EXPECT_EQ(message->id, 7U);
  std::array<char, 8> rest{};
  EXPECT_EQ(read(out_.get(), rest.data(), rest.size()), 4);
}

TEST_F(StdioMessagesTest, SaysThatTheInputHasEnded) {
  in_.Reset();
  EXPECT_FALSE(ReadMessage(out_.get(), Soon()));
}

TEST_F(StdioMessagesTest, GivesUpAtTheDeadlineWhenNothingComes) {
  EXPECT_THROW((void)ReadMessage(out_.get(), InAMoment()), Error);
}

TEST_F(StdioMessagesTest, GivesUpAtTheDeadlineWhileBytesKeepComing) {
  std::atomic<bool> enough = false;
  std::thread sender([&] {
    Write(std::string("\0\0\xf0\0\x04", 5));  // a long frame, a byte at a time
    while (!enough) {
      Write(std::string(1, '\0'));
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  });
  const TimePoint begun = SystemClock().Now();
  EXPECT_THROW((void)ReadMessage(out_.get(), InAMoment()), Error);
  EXPECT_LT(SystemClock().Now() - begun, std::chrono::seconds(10));
  enough = true;
  sender.join();
}

}  // namespace
}  // namespace tfdist::agent
