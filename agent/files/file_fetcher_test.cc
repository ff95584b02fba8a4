#include "agent/files/file_fetcher.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/files/file_server.h"
#include "base/hash.h"
#include "base/testing/temporary_folder.h"

namespace tfdist::agent {
namespace {

using protocol::FileDescription;
using protocol::FilePart;
using protocol::PartState;
using namespace std::chrono_literals;

// Two hosts in one process: parts go from one store to the other, past `on_way_`.
class FileFetcherTest : public testing::Test {
 protected:
  FileFetcherTest()
      : first_(std::make_shared<FileStore>(temporary_.path() / "first")),
        second_(std::make_shared<FileStore>(temporary_.path() / "second")),
        server_(thread_, first_, [this](int, const FilePart& part) { Deliver(part); }),
        fetcher_(loop_, thread_, second_, [this](const auto& ask) {
          ++asks_;
          server_.OnAsk(1, ask);
        }) {}

  // Of `size` bytes, announced and expected on both.
  FileDescription File(size_t size, char first = 'a') {
    contents_.emplace_back(size, first);
    std::string& content = contents_.back();
    for (size_t at = 0; at < size; at += 1000) content[at] = static_cast<char>(at / 1000);
    FileDescription file{Sha256Hex(content), size, false, ""};
    for (FileStore* store : {first_.get(), second_.get()}) {
      store->Announce(file);
      store->Expect(file);
    }
    return file;
  }
  // On the first host: bytes up to `end` are there.
  void Arrive(const FileDescription& file, size_t begin, size_t end) {
    const std::string& content = contents_.at(0);
    thread_.Post(
        [this, file, begin, part = content.substr(begin, end - begin)] {
          return first_->AcceptContent(file.sha256, begin, part);
        },
        [](Outcome<bool>& outcome) { EXPECT_NO_THROW(outcome.Get()); });
  }
  void Deliver(const FilePart& part) {
    FilePart sent = part;
    if (on_way_(sent)) fetcher_.OnPart(sent);
  }
  // Runs the loop until `condition` holds.
  void RunUntil(const std::function<bool()>& condition) {
    const TimePoint limit = SystemClock().Now() + 60s;
    EventLoop::Timer* again = nullptr;
    EventLoop::Timer timer(loop_, [&] {
      if (condition() || SystemClock().Now() > limit) return loop_.Stop();
      again->Start(1ms);
    });
    again = &timer;
    timer.Start(1ms);
    loop_.Run();
    EXPECT_TRUE(condition());
  }
  void Fetch(std::vector<FileDescription> files) {
    fetcher_.Begin(std::move(files));
    RunUntil([this] { return fetcher_.state().done; });
  }

  const TemporaryFolder temporary_;
  EventLoop loop_;
  FileThread thread_{loop_};
  std::shared_ptr<FileStore> first_;
  std::shared_ptr<FileStore> second_;
  std::vector<std::string> contents_;
  std::function<bool(FilePart&)> on_way_ = [](FilePart&) { return true; };
  size_t asks_ = 0;
  FileServer server_;
  FileFetcher fetcher_;
};

TEST_F(FileFetcherTest, AFileThatIsStillOnItsWayIsPassedOn) {
  const FileDescription file = File(3'000'000);
  Arrive(file, 0, 1'000'000);
  fetcher_.Begin({file});
  RunUntil([this] { return fetcher_.state().bytes > 900'000; });
  EXPECT_FALSE(fetcher_.state().done);
  Arrive(file, 1'000'000, 3'000'000);
  RunUntil([this] { return fetcher_.state().done; });
  EXPECT_TRUE(fetcher_.state().missing.empty());
  EXPECT_EQ(fetcher_.state().bytes, 3'000'000U);
  EXPECT_TRUE(second_->Has(file));
}

TEST_F(FileFetcherTest, WhatIsLostOnTheWayIsAskedForAgain) {
  const FileDescription file = File(2'000'000);
  Arrive(file, 0, 2'000'000);
  int count = 0;
  on_way_ = [&](FilePart&) { return ++count != 5; };
  Fetch({file});
  EXPECT_TRUE(second_->Has(file));
}

TEST_F(FileFetcherTest, WrongBytesAreRefusedAndTheNextFileComes) {
  const FileDescription file = File(200'000);
  Arrive(file, 0, 200'000);
  const FileDescription absent{Sha256Hex("nobody has it"), 13, false, ""};
  second_->Expect(absent);
  on_way_ = [](FilePart& part) {
    if (part.offset == 0 && !part.data.empty()) part.data[77] = '!';
    return true;
  };
  Fetch({file, absent});
  EXPECT_EQ(fetcher_.state().missing, (std::vector<std::string>{file.sha256, absent.sha256}));
  EXPECT_NE(fetcher_.state().why.find("a file arrived damaged"), std::string::npos)
      << fetcher_.state().why;
  EXPECT_EQ(fetcher_.state().bytes, 0U);
  EXPECT_FALSE(second_->Has(file));
}

TEST_F(FileFetcherTest, APartThatIsTooLongIsNotTaken) {
  const FileDescription file = File(1000);
  Arrive(file, 0, 1000);
  on_way_ = [](FilePart& part) {
    part.data += "more";
    return true;
  };
  Fetch({file});
  EXPECT_EQ(fetcher_.state().why, "the first host sent a part of the wrong size");
}

TEST_F(FileFetcherTest, AFileThatTheJobHasNotAnnouncedIsNotGiven) {
  const FileDescription file = File(1000);
  Arrive(file, 0, 1000);
  FilePart answer;
  FileServer other(thread_, std::make_shared<FileStore>(temporary_.path() / "first"),
                   [&](int, const FilePart& part) { answer = part; });
  answer.state = PartState::kData;
  other.OnAsk(1, {file.sha256, 0});
  RunUntil([&] { return answer.state == PartState::kNone; });
  EXPECT_TRUE(answer.data.empty());
}

TEST_F(FileFetcherTest, AFirstHostThatHasNothingYetIsAskedAFewTimesASecond) {
  const FileDescription file = File(2'000'000);
  fetcher_.Begin({file});
  const TimePoint begun = SystemClock().Now();
  RunUntil([&] { return asks_ > 1 && SystemClock().Now() - begun > 500ms; });
  EXPECT_LT(asks_, 12U);
}

}  // namespace
}  // namespace tfdist::agent
